// Tests of the order of events within one second (contract, section 1, "The order").

import JourneyModel
import Testing

struct OrderWithinSecondTests {
    private func names(_ events: [OrderedEvent], from journey: Journey) -> [String] {
        OrderWithinSecond.order(of: events, from: journey).map { events[$0].eventID }
    }

    private func event(
        _ name: EventName, _ id: String, session: String? = nil, was state: JourneyState? = nil
    ) -> OrderedEvent {
        .client(name, session: session, id: id, was: state, isWholeSecond: true)
    }

    @Test func `out and in again, in either order of arrival`() {
        let (out, back) = (event(.exitedChargerIntentZone, "out"), event(.enteredChargerIntentZone, "back"))
        #expect(names([out, back], from: Journey(state: .nearCharger)) == ["out", "back"])
        #expect(names([back, out], from: Journey(state: .nearCharger)) == ["out", "back"])
        #expect(names([out, back], from: Journey()) == ["back", "out"])
    }

    @Test func `an order in which all are legal is found where the first that is legal is not in it`() {
        let events = [
            event(.anchorDwellComplete, "dwell"), event(.exitedChargerIntentZone, "out"),
            event(.enteredChargerIntentZone, "in"),
        ]
        #expect(names(events, from: Journey(state: .nearCharger)) == ["out", "in", "dwell"])
    }

    @Test func `what is equally legal stands in the order of arrival`() {
        let events = [event(.anchorDwellComplete, "dwell"), event(.exitedChargerIntentZone, "out")]
        #expect(names(events, from: Journey(state: .nearCharger)).first == "dwell")
        #expect(names(events.reversed(), from: Journey(state: .nearCharger)).first == "out")
    }

    @Test func `a verification comes before other ends, and what moves nothing last`() {
        let events = [
            event(.webRequestedEnd, "end", session: "s"), event(.sessionRestored, "restored", session: "s"),
            event(.visitVerifiedByWeb, "verified", session: "s"),
        ]
        let journey = Journey(state: .atMerchant, sessionID: "s", hardDeadline: .at(3600))
        #expect(names(events, from: journey) == ["verified", "restored", "end"])
    }

    @Test func `no more than the bound are put in order, the others follow as they arrived`() {
        let max = OrderWithinSecond.searchedMax
        var events = (0..<max).map { event(.diagnostic("d"), "\($0)") }
        events += [event(.enteredChargerIntentZone, "in"), event(.anchorDwellComplete, "dwell")]
        #expect(names(events, from: Journey()).suffix(2) == ["in", "dwell"])
    }

    @Test func `an event with a fraction of a second comes before those without, a sequence still decides`() {
        let exact = OrderedEvent.client(.sessionRestored, session: "s", id: "a")
        let whole = event(.enteredChargerIntentZone, "b")
        #expect(exact < whole && !(whole < exact))
        let first = OrderedEvent.client(.exitedChargerIntentZone, sequence: 1, id: "1", isWholeSecond: true)
        let second = OrderedEvent.client(.enteredChargerIntentZone, sequence: 2, id: "2", isWholeSecond: true)
        #expect(Fold.inOrder([second, first]).map(\.eventID) == ["1", "2"])
        #expect(!first.sharesSecond(with: second))
    }
}
