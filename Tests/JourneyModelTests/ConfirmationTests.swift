// Tests that only a service can confirm activations and verified visits (contract, section 3, "Services"). If an app's
// event claims a confirmation, it changes nothing. An app's evidence proves no activation, in whatever order the events
// arrive.

import JourneyModel
import TestSupport
import Testing

struct ConfirmationTests {
    private static func verdicts(_ events: [OrderedEvent]) -> [Verdict] { Fold.replay(events).map(\.verdict) }

    private static let anchored: [OrderedEvent] = [
        .client(.enteredChargerIntentZone, at: .at(0), id: "a", from: .unconfirmedApp),
        .client(.anchorDwellComplete, at: .at(10), id: "b", from: .unconfirmedApp),
    ]

    @Test(arguments: [EventName.exclusiveActivatedByWeb, .visitVerifiedByWeb], JourneyState.allCases)
    func `an app's claim is unconfirmed in every state and changes nothing`(_ name: EventName, _ state: JourneyState) {
        for evidence in [nil] + JourneyState.allCases.map(Optional.some) {
            let before = Journey(state: state, sessionID: state.hasSession ? "s" : nil)
            var journey = before
            let claim = OrderedEvent.client(name, session: "s", was: evidence, from: .unconfirmedApp)
            #expect(journey.apply(claim) == .rejected(.unconfirmed))
            #expect(journey == before)
        }
    }

    @Test func `evidence of an app proves no activation, and of a service it does`() {
        for sender in [OrderedEvent.Sender.unconfirmedApp, .service, .app] {
            let events: [OrderedEvent] =
                Self.anchored + [
                    .client(.departedCharger, at: .at(20), session: "s", id: "c", was: .sessionActive, from: sender)
                ]
            let verdict = Self.verdicts(events).last
            if sender == .unconfirmedApp {
                #expect(verdict == .rejected(.unconfirmed))
            } else {
                #expect(verdict?.implied == .exclusiveActivatedByWeb)
            }
        }
    }

    @Test func `a service's activation with evidence counts before the dwell of a phone whose clock is ahead`() {
        // The phone's clock is 2 s ahead. The phone reports the dwell at 122 s, but it was complete at 120 s. The
        // service activates the session at 120.8 s.
        func visit(_ evidence: JourneyState?) -> [OrderedEvent] {
            [
                .client(.enteredChargerIntentZone, at: .at(0), id: "a", was: .idle, from: .unconfirmedApp),
                .client(.anchorDwellComplete, at: .at(122), id: "b", was: .nearCharger, from: .unconfirmedApp),
                .client(
                    .exclusiveActivatedByWeb, at: .at(120.8), session: "s", id: "c", was: evidence, from: .service),
                .client(
                    .departedCharger, at: .at(300), session: "s", id: "d", was: .sessionActive, from: .unconfirmedApp),
                .client(
                    .enteredMerchantZone, at: .at(500), session: "s", id: "e", was: .inTransit, from: .unconfirmedApp),
                .client(.visitVerifiedByWeb, at: .at(600), session: "s", id: "f", from: .service),
            ]
        }
        let ordered = Fold.inOrder(visit(.anchored))
        #expect(ordered.map(\.eventID) == ["a", "c", "b", "d", "e", "f"])
        #expect(
            Self.verdicts(ordered) == [
                .applied, Verdict(.applied, implied: .anchorDwellComplete), .rejected(.noSuchTransition), .applied,
                .applied, .applied,
            ])
        let journey = Fold.replay(ordered).last?.journey
        #expect(journey?.endedBy == .verified && journey?.sessionID == "s")
        #expect(Self.verdicts(Fold.inOrder(visit(nil)))[1] == .rejected(.notAnchored))
    }

    @Test func `evidence of another session's activation does not close the session in progress`() {
        let active: [OrderedEvent] =
            Self.anchored + [
                .client(.exclusiveActivatedByWeb, at: .at(20), session: "s", id: "c", from: .service),
                .client(
                    .departedCharger, at: .at(30), session: "t", id: "d", was: .sessionActive, from: .unconfirmedApp),
                .client(.departedCharger, at: .at(40), session: "s", id: "e", from: .unconfirmedApp),
            ]
        #expect(
            Self.verdicts(active) == [.applied, .applied, .applied, .rejected(.unconfirmed), .applied])
    }

    @Test func `an event with a transition of its own needs no evidence`() {
        let end = OrderedEvent.client(
            .webRequestedEnd, at: .at(20), session: "s", id: "c", was: .inTransit, from: .unconfirmedApp)
        #expect(Self.verdicts(Self.anchored + [end]).last == .applied)
    }

    @Test func `a claim in the same whole second as the service's event leaves the order alone`() {
        func event(_ name: EventName, _ id: String, _ sender: OrderedEvent.Sender) -> OrderedEvent {
            .client(name, at: .at(20), session: "s", id: id, isWholeSecond: true, from: sender)
        }
        let second = [
            event(.departedCharger, "d", .unconfirmedApp), event(.exclusiveActivatedByWeb, "c", .unconfirmedApp),
            event(.exclusiveActivatedByWeb, "e", .service),
        ]
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let ordered = Fold.inOrder(Self.anchored + order.map { second[$0] })
            #expect(ordered.map(\.eventID) == ["a", "b", "e", "d", "c"], "\(order)")
            #expect(Self.verdicts(ordered).last == .rejected(.unconfirmed))
        }
    }

    @Test func `without a service's event no random journey has a session`() {
        for seed in PropertyRun.seeds("DWELL_PROPERTY_JOURNEYS", unlessSet: 2000) {
            var random = SeededRandom(seed: seed)
            let events = RandomJourney.events(from: .at(0), &random).map { event in
                var event = event
                event.sender = .unconfirmedApp
                return event
            }
            for (verdict, journey) in Fold.replay(Fold.inOrder(events))
            where journey.state.hasSession && journey.endedBy != .requested || journey.endedBy == .verified
                || verdict.implied.inOrder.contains(.exclusiveActivatedByWeb)
            {
                Issue.record("seed \(seed): \(journey)")
                return
            }
        }
    }
}

extension JourneyState {
    fileprivate var hasSession: Bool { [.sessionActive, .inTransit, .atMerchant, .sessionEnded].contains(self) }
}
