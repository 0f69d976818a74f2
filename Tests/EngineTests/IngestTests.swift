// Shows what one event costs its driver and when: who is asked in which order, what is refunded, and that a
// full window never hides an event that is already stored (contract, sections 3 and 4).

import Engine
import JourneyModel
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
        let settings = SettingsInForce(VersionedSettings(settings: Settings(), version: "v1"))
        return Ingest(store: store, admission: admission, settings: settings)
    }

    @Test func aStoredEventKeepsItsChargeAndBecomesAKnownKey() async {
        let store = ScriptedStore([.success(.stored(Self.stored))])
        let admission = ScriptedAdmission([.admitted])
        let ingested = await ingest(store, admission).ingest(
            Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        guard case .acknowledged(let acknowledgement) = ingested.answer else {
            Issue.record("not acknowledged: \(ingested.answer)")
            return
        }
        #expect(acknowledgement.isRepeat == false)
        #expect(acknowledgement.state == .nearCharger)
        #expect(ingested.limitClass == .preSessionEvents)
        #expect(admission.calls == [.admit("k1"), .recordStored("k1")])
        #expect(store.appended.first?.settings.version == "v1")
    }

    @Test func anEventWithASessionFallsInTheSessionWindow() async {
        let ingested = await ingest(ScriptedStore([.success(.stored(Self.stored))]), ScriptedAdmission([.admitted]))
            .ingest(Self.submission("k1", session: "s1"), of: Self.driver, receivedAt: Self.now)
        #expect(ingested.limitClass == .sessionEvents)
    }

    @Test func aRepeatThatOnlyTheStoreKnewGetsItsChargeBack() async {
        let admission = ScriptedAdmission([.admitted])
        let ingested = await ingest(ScriptedStore([.success(.replayed(Self.stored))]), admission)
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        guard case .acknowledged(let acknowledgement) = ingested.answer else {
            Issue.record("not acknowledged: \(ingested.answer)")
            return
        }
        #expect(acknowledgement.isRepeat)
        #expect(admission.calls == [.admit("k1"), .refund("k1"), .recordRepeated("k1")])
    }

    @Test func aRepeatThatWasNotChargedDoesNotTakeBackWhatTheFirstOnePaid() async {
        let admission = ScriptedAdmission([.known])
        _ = await ingest(ScriptedStore([.success(.replayed(Self.stored))]), admission)
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(admission.calls == [.admit("k1"), .recordRepeated("k1")])
    }

    /// The other one may be refused yet, and get its charge back.
    @Test func aNewEventThatCameInOnTheChargeOfAnotherPaysForItself() async {
        let admission = ScriptedAdmission([.known])
        _ = await ingest(ScriptedStore([.success(.stored(Self.stored))]), admission)
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(admission.calls == [.admit("k1"), .forceCharge("k1"), .recordStored("k1")])
    }

    @Test(arguments: [
        Result<AppendOutcome, StoreFailure>.success(.keyReused), .success(.sessionNotFound),
        .failure(.unavailable("disk full")),
    ])
    func whatWasRefusedCostsNothing(_ outcome: Result<AppendOutcome, StoreFailure>) async {
        let admission = ScriptedAdmission([.admitted])
        _ = await ingest(ScriptedStore([outcome]), admission)
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(admission.calls == [.admit("k1"), .refund("k1")])
    }

    @Test func aCommitThatCannotBeKnownKeepsItsCharge() async {
        let admission = ScriptedAdmission([.admitted])
        let ingested = await ingest(ScriptedStore([.failure(.unknown("fsync"))]), admission)
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(ingested.answer == .failed(.unknown("fsync")))
        #expect(admission.calls == [.admit("k1")])
    }

    @Test func aFullWindowRefusesANewEventWithoutTouchingTheDisk() async {
        let store = ScriptedStore()
        let ingested = await ingest(store, ScriptedAdmission([.refused]))
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        #expect(ingested.answer == .rateLimited)
        #expect(ingested.quota == ScriptedAdmission.quota)
        #expect(store.appended.isEmpty)
    }

    @Test func aFullWindowStillAnswersARepeat() async {
        let store = ScriptedStore(known: ["k1": .replayed(Self.stored)])
        let ingested = await ingest(store, ScriptedAdmission([.refused]))
            .ingest(Self.submission("k1"), of: Self.driver, receivedAt: Self.now)
        guard case .acknowledged(let acknowledgement) = ingested.answer else {
            Issue.record("not acknowledged: \(ingested.answer)")
            return
        }
        #expect(acknowledgement.isRepeat)
        #expect(store.lookedUp == ["k1"])
    }

    @Test func aPassedDeadlineShowsInTheStateOfTheAnswer() async {
        var ended = Self.stored
        ended.journey = Journey(
            state: .inTransit, sessionID: "s1", graceDeadline: Self.now.advanced(byMilliseconds: -1),
            hardDeadline: Self.now.advanced(byMilliseconds: 60_000))
        let ingested = await ingest(ScriptedStore([.success(.stored(ended))]), ScriptedAdmission([.admitted]))
            .ingest(Self.submission("k1", session: "s1"), of: Self.driver, receivedAt: Self.now)
        guard case .acknowledged(let acknowledgement) = ingested.answer else {
            Issue.record("not acknowledged: \(ingested.answer)")
            return
        }
        #expect(acknowledgement.state == .sessionEnded)
    }

    @Test func aBatchIsChargedAndAnsweredEventByEvent() async {
        let store = ScriptedStore(
            [.success(.stored(Self.stored)), .success(.sessionNotFound)], known: ["k4": .replayed(Self.stored)])
        // The third gives its charge back, and those without one ask again: in vain.
        let admission = ScriptedAdmission([.admitted, .refused, .admitted, .refused, .refused, .refused])
        let answers = await ingest(store, admission).ingest(
            ["k1", "k2", "k3", "k4"].map { Self.submission($0) }, of: Self.driver, receivedAt: Self.now
        ).map(\.answer)
        #expect(answers.count == 4)
        #expect(store.appended.map(\.submission.idempotencyKey) == ["k1", "k3"])
        #expect(answers[1] == .rateLimited)
        #expect(answers[2] == .sessionNotFound)
        if case .acknowledged(let fourth) = answers[3] {
            #expect(fourth.isRepeat)
        } else {
            Issue.record("\(answers[3])")
        }
    }

    @Test func aBatchOverTheLimitIsLookedUpInOneRead() async {
        let keys = (1...500).map { "k\($0)" }
        let store = ScriptedStore(known: ["k7": .replayed(Self.stored)])
        let admission = ScriptedAdmission(keys.map { _ in .refused })
        let answers = await ingest(store, admission).ingest(
            keys.map { Self.submission($0) }, of: Self.driver, receivedAt: Self.now)
        #expect(store.readsOfMany == 1)
        #expect(store.lookedUp == keys)
        #expect(answers.count { $0.answer == .rateLimited } == 499)
        if case .acknowledged(let seventh) = answers[6].answer { #expect(seventh.isRepeat) }
    }

    @Test func whatOneOfABatchGaveBackIsTheNextOnes() async {
        let store = ScriptedStore([.success(.sessionNotFound), .success(.stored(Self.stored))])
        let admission = ScriptedAdmission([.admitted, .refused, .refused, .admitted, .refused])
        let answers = await ingest(store, admission).ingest(
            ["k1", "k2", "k3"].map { Self.submission($0) }, of: Self.driver, receivedAt: Self.now)
        #expect(store.appended.map(\.submission.idempotencyKey) == ["k1", "k2"])
        #expect(answers[0].answer == .sessionNotFound)
        #expect(answers[0].quota.remaining == ScriptedAdmission.quota.remaining + 1)
        if case .acknowledged = answers[1].answer {} else { Issue.record("\(answers[1])") }
        #expect(answers[2].answer == .rateLimited)
        #expect(
            admission.calls == [
                .admit("k1"), .admit("k2"), .admit("k3"), .refund("k1"), .admit("k2"), .admit("k3"),
                .recordStored("k2"),
            ])
    }
}
