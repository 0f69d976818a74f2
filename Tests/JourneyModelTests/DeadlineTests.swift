// Tests of deadlines (contract, section 1). A deadline takes effect before the first event that comes after it. If a
// late event moves or clears a deadline, the verdict on the deadline's stored expiry changes.

import JourneyModel
import Testing

struct DeadlineTests {
    private let walking = Journey(
        state: .inTransit, sessionID: "s1", graceDeadline: .at(900), hardDeadline: .at(3600))
    private let ended = Journey(state: .sessionEnded, sessionID: "s1", endedBy: .grace)

    @Test("An event after the deadline finds the session ended; one in its millisecond comes first")
    func toTheMillisecond() {
        for (seconds, verdict, state) in [
            (899.999, Verdict.applied, JourneyState.atMerchant), (900, .applied, .atMerchant),
            (900.001, .rejected(.noSuchTransition), .sessionEnded),
        ] {
            var journey = walking
            #expect(journey.apply(.client(.enteredMerchantZone, at: .at(seconds), session: "s1")) == verdict)
            #expect(journey.state == state)
        }
    }

    @Test("The clock takes a deadline once it lies strictly behind")
    func advanced() {
        #expect(walking.advanced(to: .at(900)) == walking)
        #expect(walking.advanced(to: .at(900.001)) == ended)
        #expect(ended.advanced(to: .at(99_999)) == ended)
        #expect(Journey(state: .anchored).advanced(to: .at(99_999)).state == .anchored)
    }

    @Test("The next deadline is the earlier one, grace on a tie")
    func nextDeadline() {
        var journey = walking
        #expect(isDeadline(journey.nextDeadline, .gracePeriodExpired, .at(900)))
        journey.hardDeadline = .at(900)
        #expect(isDeadline(journey.nextDeadline, .gracePeriodExpired, .at(900)))
        journey.hardDeadline = .at(899)
        #expect(isDeadline(journey.nextDeadline, .hardTimeoutExpired, .at(899)))
        journey.graceDeadline = nil
        #expect(isDeadline(journey.nextDeadline, .hardTimeoutExpired, .at(899)))
        #expect(ended.nextDeadline == nil)
    }

    @Test("Taking deadlines tells which passed, once, and ends the session")
    func takeDeadline() {
        var journey = walking
        let tooEarly = journey.takeDeadline(before: .at(900))
        let inTime = journey.takeDeadline(before: .at(5000))
        let again = journey.takeDeadline(before: .at(5000))
        #expect(tooEarly == nil)
        #expect(isDeadline(inTime, .gracePeriodExpired, .at(900)))
        #expect(again == nil)
        #expect(journey == ended)
    }

    @Test("A stored expiry is found although a deletion has given its session another id")
    func expiryWithOldID() {
        var journey = walking
        var stored = OrderedEvent.expiry(.gracePeriodExpired, at: .at(900), sessionID: "s2")
        stored.sessionID = "s1"
        let missing = journey.takeDeadline(before: stored)
        #expect(missing == nil)
        #expect(journey.apply(stored) == .applied)
        #expect(journey == ended)
    }

    @Test("A stored expiry ends the session exactly as the passing deadline does")
    func expiry() {
        var journey = walking
        #expect(journey.apply(.expiry(.gracePeriodExpired, at: .at(900), sessionID: "s1")) == .applied)
        #expect(journey == walking.advanced(to: .at(901)))
    }

    @Test("A stored expiry without its deadline has no effect and is no rejection")
    func staleExpiry() {
        let moved = OrderedEvent.expiry(.gracePeriodExpired, at: .at(800), sessionID: "s1")
        let otherSession = OrderedEvent.expiry(.gracePeriodExpired, at: .at(900), sessionID: "s0")
        for event in [moved, otherSession] {
            var journey = walking
            #expect(journey.apply(event) == .none)
            #expect(journey == walking)
        }
        var arrived = walking
        (arrived.state, arrived.graceDeadline) = (.atMerchant, nil)
        var journey = arrived
        #expect(journey.apply(.expiry(.gracePeriodExpired, at: .at(900), sessionID: "s1")) == .none)
        #expect(journey == arrived)
    }

    @Test("Grace before hard, when the stored hard expiry lies in the millisecond of both")
    func graceBeforeStoredHard() {
        var journey = walking
        journey.hardDeadline = .at(900)
        let hard = OrderedEvent.expiry(.hardTimeoutExpired, at: .at(900), sessionID: "s1")
        var copy = journey
        let taken = copy.takeDeadline(before: hard)
        #expect(isDeadline(taken, .gracePeriodExpired, .at(900)))
        #expect(journey.apply(hard) == .none)
        #expect(journey == ended)
    }

    @Test(
        "A stale expiry of another session in the same millisecond keeps one place, before or after",
        arguments: [
            "s0", "s2",
        ])
    func tieWithStaleExpiry(staleSession: String) {
        let stale = OrderedEvent.expiry(.gracePeriodExpired, at: .at(900), sessionID: staleSession)
        let own = OrderedEvent.expiry(.gracePeriodExpired, at: .at(900), sessionID: "s1")
        var journey = walking
        let taken = journey.takeDeadline(before: stale)
        #expect((taken != nil) == (own < stale))
        #expect(journey.apply(stale) == .none)
        #expect(journey.apply(own) == (taken == nil ? .applied : .none))
        #expect(journey == ended)
    }

    @Test("An expiry's id follows from what it is, and can be no client's key")
    func expiryIdentity() {
        let expiry = OrderedEvent.expiry(.gracePeriodExpired, at: .at(900), sessionID: "s1")
        #expect(expiry == .expiry(.gracePeriodExpired, at: .at(900), sessionID: "s1"))
        #expect(expiry.idempotencyKey == expiry.eventID)
        #expect(expiry.idempotencyKey.utf8.contains { $0 >= 0x80 })
        let others: [OrderedEvent] = [
            .expiry(.hardTimeoutExpired, at: .at(900), sessionID: "s1"),
            .expiry(.gracePeriodExpired, at: .at(901), sessionID: "s1"),
            .expiry(.gracePeriodExpired, at: .at(900), sessionID: "s2"),
        ]
        #expect(others.allSatisfy { $0.idempotencyKey != expiry.idempotencyKey })
    }

    @Test("A client's own expiry counts when it happened, also before the server's deadline")
    func clientExpiry() {
        var journey = walking
        #expect(journey.apply(.client(.gracePeriodExpired, at: .at(850), session: "s1")) == .applied)
        #expect(journey == ended)
    }

    @Test("An expiry in the past is stored when a later event makes it pass, before that event")
    func expiryBetweenEvents() {
        var log = JourneyLog()
        log.append(.client(.enteredChargerIntentZone, at: .at(0), id: "1"))
        log.append(.client(.anchorDwellComplete, at: .at(1), id: "2"))
        log.append(.client(.exclusiveActivatedByWeb, at: .at(2), session: "s1", id: "3"))
        log.append(.client(.enteredChargerIntentZone, at: .at(9000), id: "4"))
        #expect(
            log.points.map(\.event.name) == [
                .enteredChargerIntentZone, .anchorDwellComplete, .exclusiveActivatedByWeb, .hardTimeoutExpired,
                .enteredChargerIntentZone,
            ])
        #expect(log.points[3].event.occurredAt == .at(3602))
        #expect(log.points[4].verdict == Verdict(.applied, implied: .reset))
    }

    private func isDeadline(_ deadline: (name: EventName, at: Moment)?, _ name: EventName, _ at: Moment) -> Bool {
        deadline?.name == name && deadline?.at == at
    }
}
