// Tests of implied steps: each row of the table "What is implied" (contract, section 1), and the steps that are never
// implied.

import JourneyModel
import Testing

struct EvidenceTests {
    private static func fold(_ events: [OrderedEvent]) -> [(verdict: Verdict, journey: Journey)] {
        Fold.replay(events)
    }

    @Test func `the shortest way is implied, as of the event that proves it`() throws {
        let last = try #require(
            Self.fold([.client(.enteredMerchantZone, at: .at(50), session: "s", was: .inTransit)]).last)
        #expect(
            last.verdict.implied.names == [
                "enteredChargerIntentZone", "anchorDwellComplete", "exclusiveActivatedByWeb", "exitedChargerAnchorZone",
            ])
        #expect(last.journey.state == .atMerchant)
        #expect(last.journey.sessionID == "s")
        #expect(last.journey.graceDeadline == nil)
        #expect(last.journey.hardDeadline == .at(3650))
    }

    @Test func `the late event takes its place, and the implied step is gone`() {
        let dwell = OrderedEvent.client(.anchorDwellComplete, at: .at(20), id: "b", was: .nearCharger)
        let others: [OrderedEvent] = [
            .client(.enteredChargerIntentZone, at: .at(10), id: "a", was: .idle),
            .client(.exclusiveActivatedByWeb, at: .at(30), session: "s", id: "c", was: .anchored),
        ]
        #expect(Self.fold(others).last?.verdict.implied == .anchorDwellComplete)
        #expect(Self.fold([others[0], dwell, others[1]]).map(\.verdict) == [.applied, .applied, .applied])
    }

    @Test(arguments: [
        (EventName.exclusiveActivatedByWeb, JourneyState.nearCharger, Verdict.Reason.notAnchored),
        (.exclusiveActivatedByWeb, .idle, .notAnchored), (.visitVerifiedByWeb, .anchored, .notAtMerchant),
        (.visitVerifiedByWeb, .nearCharger, .notAtMerchant), (.departedCharger, .anchored, .noSuchTransition),
    ])
    func `evidence of a state that is no source of the event proves nothing`(
        _ name: EventName, _ state: JourneyState, _ reason: Verdict.Reason
    ) {
        var journey = Journey(state: .nearCharger)
        #expect(journey.apply(.client(name, session: "s", was: state)) == .rejected(reason))
        #expect(journey.state == .nearCharger)
    }

    @Test(arguments: [Journey.Ending.verified, .grace, .hardTimeout, .requested])
    func `a session that ended is not begun again by evidence, before the reset or after it`(_ ending: Journey.Ending) {
        let ended = Journey(state: .sessionEnded, sessionID: "s", endedBy: ending)
        for name in [EventName.exclusiveActivatedByWeb, .departedCharger, .enteredMerchantZone, .visitVerifiedByWeb] {
            let source: JourneyState = name == .exclusiveActivatedByWeb ? .anchored : .inTransit
            let evidence: JourneyState = name == .departedCharger ? .sessionActive : source
            var journey = ended
            #expect(journey.apply(.client(name, session: "s", was: evidence)).transition == .rejected)
            #expect(journey == ended)
            _ = journey.apply(.client(.enteredChargerIntentZone, at: .at(5), was: .sessionEnded))
            #expect(journey.apply(.client(name, at: .at(6), session: "s", was: evidence)).transition == .rejected)
            #expect(journey.state == .nearCharger)
        }
    }

    /// First a visit that ends with a verification. Then the phone's events of the next journey, up to the anchoring.
    private static let anchoredAgain: [OrderedEvent] = [
        .client(.exclusiveActivatedByWeb, at: .at(0), session: "one", id: "a", was: .anchored),
        .client(.visitVerifiedByWeb, at: .at(10), session: "one", id: "b", was: .inTransit),
        .client(.enteredChargerIntentZone, at: .at(100), id: "c", was: .sessionEnded),
        .client(.anchorDwellComplete, at: .at(220), id: "d", was: .nearCharger),
    ]
    private static let nextActivation = OrderedEvent.client(
        .exclusiveActivatedByWeb, at: .at(300), session: "two", id: "z", was: .anchored)

    @Test(arguments: [
        (EventName.exclusiveActivatedByWeb, 230.0), (.webRequestedEnd, 230), (.webRequestedEnd, 150),
    ])
    func `an ended session does not begin again, and does not end the next journey`(
        _ name: EventName, _ seconds: Double
    ) throws {
        for evidence in [nil, JourneyState.anchored] {
            let late = OrderedEvent.client(name, at: .at(seconds), session: "one", id: "y", was: evidence)
            let ordered = Fold.inOrder(Self.anchoredAgain + [late, Self.nextActivation])
            let steps = Self.fold(ordered)
            for (event, step) in zip(ordered, steps) {
                let isLate = event.eventID == "y"
                #expect(step.verdict.transition == (isLate ? .rejected : .applied), "\(event.eventID)")
                if isLate { #expect(step.verdict == .rejected(.noSuchTransition)) }
            }
            let end = try #require(steps.last)
            #expect(end.verdict == .applied, "nothing is implied")
            #expect(end.journey.state == .sessionActive && end.journey.sessionID == "two")
        }
    }

    @Test func `an ended session is remembered through journeys without a session`() {
        let events: [OrderedEvent] =
            Self.anchoredAgain + [
                .client(.webRequestedEnd, at: .at(230), id: "e"),
                .client(.enteredChargerIntentZone, at: .at(240), id: "f", was: .sessionEnded),
                .client(.anchorDwellComplete, at: .at(260), id: "g", was: .nearCharger),
                .client(.exclusiveActivatedByWeb, at: .at(270), session: "one", id: "h", was: .anchored),
            ]
        let last = Self.fold(events).last
        #expect(last?.verdict == .rejected(.noSuchTransition) && last?.journey.state == .anchored)
    }

    @Test func `a session that was never seen can be ended before it is activated`() {
        for seconds in [150.0, 230] {
            let end = OrderedEvent.client(.webRequestedEnd, at: .at(seconds), session: "two", id: "y")
            let events = Self.anchoredAgain.filter { $0.occurredAt < end.occurredAt } + [end]
            let last = Self.fold(events).last
            #expect(last?.verdict == .applied && last?.journey.endedBy == .requested)
        }
    }

    @Test func `what the phone says of its position counts, whichever session it names`() {
        let events: [OrderedEvent] =
            Self.anchoredAgain + [
                .client(.exitedChargerIntentZone, at: .at(230), session: "one", id: "e"),
                .client(.enteredChargerIntentZone, at: .at(240), session: "one", id: "f"),
                .client(.anchorDwellComplete, at: .at(360), session: "one", id: "g"),
            ]
        #expect(Self.fold(events).suffix(3).map(\.journey.state) == [.idle, .nearCharger, .anchored])
    }

    @Test func `an expiry is undone by what happened before the deadline alone`() {
        let start: [OrderedEvent] = [
            .client(.exclusiveActivatedByWeb, at: .at(0), session: "s", id: "a", was: .anchored),
            .client(.departedCharger, at: .at(10), session: "s", id: "b", was: .sessionActive),
        ]
        for (second, ending) in [(910.0, Journey.Ending.verified), (910.001, .grace)] {
            let verified = OrderedEvent.client(
                .visitVerifiedByWeb, at: .at(second), session: "s", id: "c", was: .inTransit)
            #expect(Self.fold(start + [verified]).last?.journey.endedBy == ending)
        }
    }

    @Test func `two phones with a session each do not begin them in turns`() {
        let events: [OrderedEvent] = [
            .client(.exclusiveActivatedByWeb, at: .at(0), session: "one", id: "a", was: .anchored),
            .client(.exclusiveActivatedByWeb, at: .at(10), session: "two", id: "b", was: .anchored),
            .client(.departedCharger, at: .at(20), session: "one", id: "c", was: .sessionActive),
            .client(.departedCharger, at: .at(30), session: "two", id: "d", was: .sessionActive),
            .client(.exclusiveActivatedByWeb, at: .at(40), session: "one", id: "e", was: .anchored),
            .client(.visitVerifiedByWeb, at: .at(50), session: "two", id: "f", was: .inTransit),
        ]
        let steps = Self.fold(events)
        #expect(steps.map(\.verdict.transition) == [.applied, .applied, .rejected, .applied, .rejected, .applied])
        #expect(steps.last?.journey.sessionID == "two" && steps.last?.journey.endedBy == .verified)
        #expect(steps[0].journey.closing(by: steps[1].journey) == .superseded)
    }

    /// The phone's clock is four minutes ahead, and the service's clock is right. The driver enters the zone before the
    /// service reports the activation. In the order of events, the entry still comes after the activation.
    @Test func `an entry of a phone whose clock is ahead does not end the session that a service began`() {
        let events: [OrderedEvent] = [
            .client(.exclusiveActivatedByWeb, at: .at(0), session: "one", id: "a", was: .anchored),
            .client(.visitVerifiedByWeb, at: .at(10), session: "one", id: "b", was: .inTransit),
            .client(.exclusiveActivatedByWeb, at: .at(280), session: "two", id: "c", was: .anchored),
            .client(.enteredChargerIntentZone, at: .at(340), id: "d", was: .sessionEnded),
            .client(.anchorDwellComplete, at: .at(460), id: "e", was: .nearCharger),
            .client(.departedCharger, at: .at(600), session: "two", id: "f", was: .sessionActive),
            .client(.enteredMerchantZone, at: .at(700), session: "two", id: "g", was: .inTransit),
            .client(.visitVerifiedByWeb, at: .at(800), session: "two", id: "h"),
        ]
        let steps = Self.fold(events)
        #expect(
            steps.map(\.verdict.transition) == [
                .applied, .applied, .applied, .rejected, .rejected, .applied, .applied, .applied,
            ])
        #expect(steps.last?.journey.sessionID == "two" && steps.last?.journey.endedBy == .verified)
    }

    @Test func `a session in progress is reset only by an event that contains its id`() {
        for state in [JourneyState.sessionActive, .inTransit, .atMerchant] {
            for name in [EventName.enteredChargerIntentZone, .reset] {
                let running = Journey(state: state, sessionID: "s", hardDeadline: .at(3600))
                var journey = running
                #expect(journey.apply(.client(name, was: .sessionEnded)) == .rejected(.noSuchTransition))
                #expect(journey == running)
                #expect(journey.apply(.client(name, session: "s", was: .sessionEnded)).transition == .applied)
                #expect(running.closing(by: journey) == .reset)
            }
        }
    }

    @Test func `the end of a session that was never seen ends no other`() {
        let running = Journey(state: .inTransit, sessionID: "s", graceDeadline: .at(900), hardDeadline: .at(3600))
        for name in [EventName.gracePeriodExpired, .hardTimeoutExpired, .webRequestedEnd, .reset] {
            var journey = running
            let evidence: JourneyState = name == .reset ? .sessionEnded : .inTransit
            #expect(journey.apply(.client(name, session: "other", was: evidence)) == .rejected(.noSuchTransition))
            #expect(journey == running)
        }
    }

    @Test func `what makes no transition proves nothing`() {
        for name in [EventName.sessionRestored, .chargerTargeted, .diagnostic("x")] {
            var journey = Journey()
            #expect(journey.apply(.client(name, session: "s", was: .atMerchant)) == .none)
            #expect(journey == Journey())
        }
    }

    @Test func `implied steps are read back from their names`() {
        let cases: [(ImpliedSteps, JourneyState)] = [
            ([], .idle), (.reset, .nearCharger), ([.enteredChargerIntentZone, .anchorDwellComplete], .anchored),
            ([.departedCharger, .enteredMerchantZone], .sessionEnded), (.departedCharger, .atMerchant),
            (.anchorLost, .idle), ([.anchorLost, .exitedChargerIntentZone], .nearCharger),
            ([.exclusiveActivatedByWeb, .departedCharger], .atMerchant),
        ]
        for (steps, state) in cases { #expect(ImpliedSteps(names: steps.names, state: state) == steps) }
    }
}
