// Tests of the rules that decide which notifications a change of a journey causes.

import Engine
import Identity
import JourneyModel
import TestSupport
import Testing

@testable import Push

@Suite struct PushRulesTests {
    private let now = Moment.sample
    private let hard = Moment.sample.advanced(bySeconds: 3000)

    private func entries(
        _ before: PushChange.Phase, _ after: PushChange.Phase, secondsAgo: Int = 1, isByServer: Bool = false,
        activity: Bool = false, preferences: NotificationPreferences = .init()
    ) -> [PushEntry] {
        PushRules.entries(
            for: PushChange(
                driver: 1, before: before, after: after, occurredAt: now.advanced(bySeconds: -secondsAgo),
                isByServer: isByServer,
                devices: [PushTarget(device: 7, platform: "ios", hasLiveActivity: activity, preferences: preferences)]),
            at: now)
    }

    private func entriesAfterUnknown(
        _ after: PushChange.Phase, isByServer: Bool = false, activity: Bool = false
    ) -> [PushEntry] {
        PushRules.entries(
            for: PushChange(
                driver: 1, before: nil, after: after, occurredAt: now.advanced(bySeconds: -1), isByServer: isByServer,
                devices: [PushTarget(device: 7, platform: "ios", hasLiveActivity: activity, preferences: .init())]),
            at: now)
    }

    private func kinds(_ entries: [PushEntry]) -> [String] { entries.map(\.kind.word) }

    private var active: PushChange.Phase { .init(state: .sessionActive, session: .row(5), hardDeadline: hard) }

    private func transit(graceSeconds: Int) -> PushChange.Phase {
        .init(
            state: .inTransit, session: .row(5), graceDeadline: now.advanced(bySeconds: graceSeconds),
            hardDeadline: hard)
    }

    private func ended(_ ending: Journey.Ending) -> PushChange.Phase {
        .init(state: .sessionEnded, session: .row(5), endedBy: ending)
    }

    @Test func `a session that begins is told, until its hard deadline`() throws {
        let found = entries(.init(state: .anchored), active)
        #expect(kinds(found) == ["session_active"])
        let entry = try #require(found.first)
        #expect(entry.dueAt == now)
        #expect(entry.expiresAt == hard)
        #expect(entry.session == .row(5) && entry.device == 7 && entry.driver == 1)
    }

    @Test func `a change within a state tells nothing`() {
        var later = active
        later.hardDeadline = hard.advanced(bySeconds: 1)
        #expect(entries(active, later) == [])
        #expect(entries(.init(), .init(state: .nearCharger)) == [])
    }

    @Test func `another session in the same state is told again`() {
        var other = active
        other.session = .row(6)
        #expect(kinds(entries(active, other)) == ["session_active"])
    }

    @Test func `the arrival is told`() {
        let there = PushChange.Phase(state: .atMerchant, session: .row(5), hardDeadline: hard)
        #expect(kinds(entries(transit(graceSeconds: 600), there)) == ["at_merchant"])
    }

    @Test func `the warning is due three minutes before the end of the grace period`() throws {
        let entry = try #require(entries(active, transit(graceSeconds: 900)).first)
        #expect(entry.kind == .alert(.graceEnding))
        #expect(entry.dueAt == now.advanced(bySeconds: 720))
        #expect(entry.deadline == now.advanced(bySeconds: 900))
        #expect(entry.expiresAt == now.advanced(bySeconds: 900))
    }

    @Test func `a shorter grace period is told at its beginning`() throws {
        let entry = try #require(entries(active, transit(graceSeconds: 100), secondsAgo: 2).first)
        #expect(entry.kind == .alert(.graceEnding))
        #expect(entry.dueAt == now.advanced(bySeconds: -2))
    }

    @Test func `a departure that arrives late still warns, if the time of the warning is not past`() {
        #expect(kinds(entries(active, transit(graceSeconds: 900), secondsAgo: 300)) == ["grace_ending"])
        #expect(entries(active, transit(graceSeconds: 119), secondsAgo: 300) == [])
        #expect(kinds(entries(active, transit(graceSeconds: 120), secondsAgo: 300)) == ["grace_ending"])
        #expect(entries(active, transit(graceSeconds: 0), secondsAgo: 3) == [])
    }

    @Test func `a moved deadline warns again, an unmoved one does not`() {
        #expect(kinds(entries(transit(graceSeconds: 900), transit(graceSeconds: 800))) == ["grace_ending"])
        #expect(entries(transit(graceSeconds: 900), transit(graceSeconds: 900)) == [])
    }

    @Test(arguments: [Journey.Ending.grace, .hardTimeout])
    func `an expiry of the server alerts and wakes, one of the phone only alerts`(ending: Journey.Ending) {
        let before = transit(graceSeconds: 0)
        #expect(kinds(entries(before, ended(ending), isByServer: true)) == ["session_expired", "wake"])
        #expect(kinds(entries(before, ended(ending))) == ["session_expired"])
    }

    @Test(arguments: [Journey.Ending.verified, .requested])
    func `any other end tells nothing`(ending: Journey.Ending) {
        #expect(entries(active, ended(ending), isByServer: true) == [])
    }

    @Test func `nothing is sent for what happened more than a minute ago`() {
        #expect(kinds(entries(.init(), active, secondsAgo: 60)) == ["session_active"])
        #expect(entries(.init(), active, secondsAgo: 61, activity: true) == [])
        #expect(entries(active, ended(.grace), secondsAgo: 61, isByServer: true, activity: true) == [])
    }

    @Test func `a quiet device gets no alert, but is woken and its Live Activity is updated`() {
        let quiet = NotificationPreferences(isQuiet: true)
        #expect(entries(.init(), active, preferences: quiet) == [])
        #expect(entries(active, transit(graceSeconds: 900), preferences: quiet) == [])
        #expect(
            kinds(entries(active, ended(.grace), isByServer: true, activity: true, preferences: quiet))
                == ["wake", "activity_end"])
    }

    @Test func `each kind of alert can be turned off alone`() {
        let steps: [(AlertKind, PushChange.Phase, PushChange.Phase)] = [
            (.sessionActive, .init(), active), (.graceEnding, active, transit(graceSeconds: 900)),
            (.atMerchant, active, .init(state: .atMerchant, session: .row(5))),
            (.sessionExpired, active, ended(.grace)),
        ]
        for (kind, before, after) in steps {
            for muted in AlertKind.allCases {
                let found = entries(before, after, preferences: .init(muted: [muted]))
                #expect(kinds(found) == (muted == kind ? [] : [kind.rawValue]))
            }
        }
    }

    @Test func `a Live Activity follows every change of the session, and ends with it`() throws {
        let update = try #require(entries(active, transit(graceSeconds: 900), activity: true).first)
        #expect(update.kind == .activityUpdate)
        #expect(update.deadline == now.advanced(bySeconds: 900))
        #expect(update.expiresAt == now.advanced(bySeconds: 900))
        #expect(kinds(entries(active, ended(.verified), activity: true)) == ["activity_end"])
        #expect(kinds(entries(active, .init(state: .idle), activity: true)) == ["activity_end"])
        #expect(entries(.init(), .init(state: .nearCharger), activity: true) == [])
    }

    @Test func `a session that ends after an unknown phase ends the Live Activity`() {
        for ending in [Journey.Ending.verified, .requested] {
            #expect(kinds(entriesAfterUnknown(ended(ending), activity: true)) == ["activity_end"])
        }
        #expect(
            kinds(entriesAfterUnknown(ended(.grace), isByServer: true, activity: true))
                == ["session_expired", "wake", "activity_end"])
        #expect(entriesAfterUnknown(ended(.verified)) == [])
        #expect(entries(ended(.grace), ended(.verified), activity: true) == [], "It is known to have ended before.")
    }

    @Test func `after an unknown phase, a journey without a session ends no Live Activity`() {
        for state in [JourneyState.idle, .nearCharger, .anchored, .sessionEnded] {
            #expect(entriesAfterUnknown(.init(state: state), activity: true) == [])
        }
    }

    @Test func `after an unknown phase, the driver is told what the state is`() {
        #expect(kinds(entriesAfterUnknown(active, activity: true)) == ["session_active", "activity_update"])
        #expect(
            kinds(entriesAfterUnknown(transit(graceSeconds: 900), activity: true))
                == ["activity_update", "grace_ending"])
    }
}
