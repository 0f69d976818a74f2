// Tests of the charges, refunds and port calls of `Ingest`. A driver over the rate limit still gets the results of
// events that are already stored (contract, sections 3 and 4).

import Engine
import JourneyModel
import RateLimiting
import Testing

struct IngestTests {
    private static let driver = DriverID("priya")
    private static let now = Moment(millisecondsSinceEpoch: 1_800_000_000_000)
    private static let stored = StoredEvent(
        eventID: "e1", verdict: .applied, journey: Journey(state: .nearCharger, targetChargerID: "chg"))

    private static func submission(_ key: String, session: String? = nil) -> EventSubmission {
        EventSubmission(
            name: .chargerTargeted, spelling: "chargerTargeted", eventID: key, idempotencyKey: key,
            sessionID: session, occurredAt: now, occurredAtText: "2027-01-15T08:00:00Z", canonicalForm: Array("{}".utf8)
        )
    }

    private func ingest(_ store: ScriptedStore, _ admission: ScriptedAdmission) -> Ingest {
        let settings = CurrentSettings(VersionedSettings(settings: Settings(), version: "v1"))
        return Ingest(store: store, admission: admission, settings: settings)
    }

    @Test func aStoredEventKeepsItsChargeAndBecomesAKnownKey() async {
        let store = ScriptedStore([.stored(Self.stored)])
        let admission = ScriptedAdmission([.admitted])
        let ingested = await ingest(store, admission).ingest(
            Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(ingested.outcome == .stored(Self.stored))
        #expect(ingested.limitClass == .preSessionEvents)
        #expect(admission.calls == [.admit("k1"), .recordStored("k1")])
        #expect(store.appended.first?.settings.version == "v1")
    }

    @Test func anEventWithASessionFallsInTheSessionWindow() async {
        let ingested = await ingest(ScriptedStore([.stored(Self.stored)]), ScriptedAdmission([.admitted]))
            .ingest(Self.submission("k1", session: "s1"), of: Self.driver, receivedAt: Self.now)
        #expect(ingested.limitClass == .sessionEvents)
    }

    @Test func aRepeatThatOnlyTheStoreKnewGetsItsChargeBack() async {
        let admission = ScriptedAdmission([.admitted])
        let ingested = await ingest(ScriptedStore([.replayed(Self.stored)]), admission)
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(ingested.outcome == .replayed(Self.stored))
        #expect(admission.calls == [.admit("k1"), .refund("k1"), .recordRepeated("k1")])
    }

    @Test func aRepeatThatWasNotChargedDoesNotTakeBackWhatTheFirstOnePaid() async {
        let admission = ScriptedAdmission([.known])
        _ = await ingest(ScriptedStore([.replayed(Self.stored)]), admission)
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(admission.calls == [.admit("k1"), .recordRepeated("k1")])
    }

    /// The limiter admits this event without a charge, because it has charged another event with the same key. That
    /// charge may be refunded. This event is therefore charged when it has been stored.
    @Test func aNewEventThatCameInOnTheChargeOfAnotherPaysForItself() async {
        let admission = ScriptedAdmission([.known])
        _ = await ingest(ScriptedStore([.stored(Self.stored)]), admission)
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(admission.calls == [.admit("k1"), .forceCharge("k1"), .recordStored("k1")])
    }

    @Test(arguments: [
        EventOutcome.keyReused, .sessionNotFound,
        .failed(.unavailable("disk full")),
    ])
    func whatWasRefusedCostsNothing(_ outcome: EventOutcome) async {
        let admission = ScriptedAdmission([.admitted])
        _ = await ingest(ScriptedStore([outcome]), admission)
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(admission.calls == [.admit("k1"), .refund("k1")])
    }

    @Test func aCommitThatCannotBeKnownKeepsItsCharge() async {
        let admission = ScriptedAdmission([.admitted])
        let ingested = await ingest(ScriptedStore([.failed(.unknown("fsync"))]), admission)
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(ingested.outcome == .failed(.unknown("fsync")))
        #expect(admission.calls == [.admit("k1")])
    }

    @Test func aFullWindowRefusesANewEventWithoutTouchingTheDisk() async {
        let store = ScriptedStore()
        let ingested = await ingest(store, ScriptedAdmission([.refused]))
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(ingested.outcome == .rateLimited)
        #expect(ingested.quota == ScriptedAdmission.quota)
        #expect(store.appended.isEmpty)
    }

    @Test func aFullWindowStillAnswersARepeat() async {
        let store = ScriptedStore(known: ["k1": .replayed(Self.stored)])
        let ingested = await ingest(store, ScriptedAdmission([.refused]))
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(ingested.outcome == .replayed(Self.stored))
        #expect(store.lookedUp == ["k1"])
    }

    @Test func aPassedDeadlineShowsInTheStateOfTheAnswer() async {
        var ended = Self.stored
        ended.journey = Journey(
            state: .inTransit, sessionID: "s1", graceDeadline: Self.now.advanced(byMilliseconds: -1),
            hardDeadline: Self.now.advanced(byMilliseconds: 60_000))
        let ingested = await ingest(ScriptedStore([.stored(ended)]), ScriptedAdmission([.admitted]))
            .ingest(Self.submission("k1", session: "s1"), of: Self.driver, receivedAt: Self.now)
        guard case .stored(let event) = ingested.outcome else {
            Issue.record("not stored: \(ingested.outcome)")
            return
        }
        #expect(event.journey.state == .sessionEnded)
    }

    @Test func aBatchIsChargedAndAnsweredEventByEvent() async {
        let store = ScriptedStore(
            [.stored(Self.stored), .sessionNotFound], known: ["k4": .replayed(Self.stored)])
        // The refund of the third event's charge makes `Ingest` ask again about the second event. The limiter refuses
        // it again, as if another request had used the charge.
        let admission = ScriptedAdmission([.admitted, .refused, .admitted, .refused, .refused])
        let answers = await ingest(store, admission).ingest(
            ["k1", "k2", "k3", "k4"].map { Self.submission($0) }, from: .driver(Self.driver), receivedAt: Self.now
        ).map(\.outcome)
        #expect(answers.count == 4)
        #expect(store.appended.map(\.submission.idempotencyKey) == ["k1", "k3"])
        #expect(answers[1] == .rateLimited)
        #expect(answers[2] == .sessionNotFound)
        #expect(answers[3] == .replayed(Self.stored))
    }

    @Test func aBatchOverTheLimitIsLookedUpInOneRead() async {
        let keys = (1...500).map { "k\($0)" }
        let store = ScriptedStore(known: ["k7": .replayed(Self.stored)])
        let admission = ScriptedAdmission(keys.map { _ in .refused })
        let answers = await ingest(store, admission).ingest(
            keys.map { Self.submission($0) }, from: .driver(Self.driver), receivedAt: Self.now)
        #expect(store.readsOfMany == 1)
        #expect(store.lookedUp == keys)
        #expect(answers.count { $0.outcome == .rateLimited } == 499)
        #expect(answers[6].outcome == .replayed(Self.stored))
    }

    /// The store rate-limits an event while the driver owes charges for refolds. If `Ingest` tried such an event again
    /// after its refund, one batch would call the store again and again.
    @Test func anEventThatTheStoreRateLimitsIsRefundedAndNotTriedAgain() async {
        let store = ScriptedStore([.rateLimited, .stored(Self.stored)])
        let admission = ScriptedAdmission([.admitted, .admitted])
        let answers = await ingest(store, admission).ingest(
            ["k1", "k2"].map { Self.submission($0) }, from: .driver(Self.driver), receivedAt: Self.now)
        #expect(answers.map(\.outcome) == [.rateLimited, .stored(Self.stored)])
        #expect(store.appended.map(\.submission.idempotencyKey) == ["k1", "k2"])
        #expect(admission.calls == [.admit("k1"), .admit("k2"), .refund("k1"), .recordStored("k2")])
        #expect(answers.map(\.quota) == [ScriptedAdmission.quota, ScriptedAdmission.quota])
    }

    @Test func whatOneOfABatchGaveBackIsTheNextOnes() async {
        let store = ScriptedStore([.sessionNotFound, .stored(Self.stored)])
        let admission = ScriptedAdmission([.admitted, .refused, .refused, .admitted])
        let answers = await ingest(store, admission).ingest(
            ["k1", "k2", "k3"].map { Self.submission($0) }, from: .driver(Self.driver), receivedAt: Self.now)
        #expect(store.appended.map(\.submission.idempotencyKey) == ["k1", "k2"])
        #expect(answers[0].outcome == .sessionNotFound)
        #expect(answers[0].quota.remaining == ScriptedAdmission.quota.remaining + 1)
        #expect(answers[1].outcome == .stored(Self.stored))
        #expect(answers[2].outcome == .rateLimited)
        #expect(
            admission.calls == [
                .admit("k1"), .admit("k2"), .admit("k3"), .refund("k1"), .admit("k2"), .recordStored("k2"),
            ])
    }
}
