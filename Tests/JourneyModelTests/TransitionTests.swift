// Tests every event in every state against the contract's table of transitions (section 1). Events name the session in
// progress, another session, or a session that has ended. The entries of the handwritten table below mean:
//
// - A letter stands for the state to which the event leads. "." means that the event is accepted and changes no state.
// - "x" is a rejection as no_such_transition, "na" as not_anchored, "nm" as not_at_merchant, "md" as must_depart_first.
// - "r+N" leads to NEAR_CHARGER with an implied reset. "l+I" leads to IDLE with an implied loss of the anchor.
// - "dm+E" leads to SESSION_ENDED with an implied departure and arrival. "m+E" leads to SESSION_ENDED with only an
//   implied arrival.

import JourneyModel
import Testing

struct TransitionTests {
    static let table = """
                                IDLE  NEAR  ANCH  ACTI  TRAN  MERC  ENDE
        chargerTargeted           .     .     .     .     .     .     .
        enteredChargerIntentZone  N     x     x     x     x     x     r+N
        exitedChargerIntentZone   x     I     l+I   x     x     x     x
        anchorDwellComplete       x     A     x     x     x     x     x
        anchorLost                x     x     N     x     x     x     x
        activationRejected        .     .     .     .     .     .     .
        exclusiveActivatedByWeb   na    na    S     x     x     x     x
        departedCharger           x     x     x     T     x     x     x
        enteredMerchantZone       x     x     x     md    M     x     x
        visitVerifiedByWeb        nm    nm    nm    dm+E  m+E   E     nm
        webRequestedEnd           x     E     E     E     E     E     x
        gracePeriodExpired        x     x     x     x     E     x     x
        hardTimeoutExpired        x     x     x     E     E     E     x
        reset                     x     x     x     x     x     x     I
        sessionRestored           .     .     .     .     .     .     .
        diagnostic                .     .     .     .     .     .     .
        """

    /// The rows of the table. If a row's name is not an event name, the row is left out and `gridIsComplete` fails.
    static let grid: [(EventName, [String])] = table.split(separator: "\n").dropFirst().compactMap { line in
        let cells = line.split(separator: " ").map(String.init)
        let name = allNames.first { "\($0)" == cells[0] || "\($0)".hasPrefix(cells[0] + "(") }
        return name.map { ($0, Array(cells.dropFirst())) }
    }

    /// The events that never change the state. Whichever session such an event names, its verdict is the same.
    static let neverMoving: Set<EventName> = [
        .chargerTargeted, .activationRejected, .sessionRestored, .diagnostic("teleport_detected"),
    ]

    static let states: [JourneyState] = [
        .idle, .nearCharger, .anchored, .sessionActive, .inTransit, .atMerchant, .sessionEnded,
    ]

    /// Returns a journey in `state`. Its deadlines are still far in the future.
    static func journey(in state: JourneyState) -> Journey {
        var journey = Journey(state: state)
        let hasBegun = [.sessionActive, .inTransit, .atMerchant, .sessionEnded].contains(state)
        if hasBegun { journey.sessionID = "own" }
        if hasBegun && state != .sessionEnded { journey.hardDeadline = .at(3000) }
        if state == .sessionEnded { journey.endedBy = .verified }
        if state == .inTransit { journey.graceDeadline = .at(900) }
        return journey
    }

    static func read(_ cell: String, in state: JourneyState) -> (state: JourneyState, verdict: Verdict) {
        let destinations: [String: JourneyState] = [
            "I": .idle, "N": .nearCharger, "A": .anchored, "S": .sessionActive, "T": .inTransit, "M": .atMerchant,
            "E": .sessionEnded,
        ]
        switch cell {
        case ".": return (state, Verdict(.none))
        case "x": return (state, Verdict(.rejected, reason: .noSuchTransition))
        case "na": return (state, Verdict(.rejected, reason: .notAnchored))
        case "nm": return (state, Verdict(.rejected, reason: .notAtMerchant))
        case "md": return (state, Verdict(.rejected, reason: .mustDepartFirst))
        case "r+N": return (.nearCharger, Verdict(.applied, implied: .reset))
        case "l+I": return (.idle, Verdict(.applied, implied: .anchorLost))
        case "m+E": return (.sessionEnded, Verdict(.applied, implied: .enteredMerchantZone))
        case "dm+E": return (.sessionEnded, Verdict(.applied, implied: [.departedCharger, .enteredMerchantZone]))
        default: return (destinations[cell] ?? state, Verdict(.applied))
        }
    }

    @Test("The grid has every event and every state")
    func gridIsComplete() {
        #expect(Set(Self.grid.map(\.0)) == Set(allNames))
        #expect(Self.grid.allSatisfy { $0.1.count == JourneyState.allCases.count })
        #expect(Set(Self.states) == Set(JourneyState.allCases))
    }

    @Test("Each event of the session in progress leads where the contract says", arguments: grid)
    func ownSession(_ name: EventName, _ cells: [String]) {
        for (state, cell) in zip(Self.states, cells) {
            for session in name.requiresSession ? ["own"] : ["own", nil] where !(name == .anchorLost && session != nil)
            {
                var journey = Self.journey(in: state)
                // While a session is in progress, a webRequestedEnd without a session id is rejected.
                let endsNone = name == .webRequestedEnd && session == nil && journey.hardDeadline != nil
                let verdict = journey.apply(.client(name, session: session))
                let expected = Self.read(endsNone ? "x" : cell, in: state)
                #expect(verdict == expected.verdict, "\(name) in \(state), session \(session ?? "none")")
                #expect(journey.state == expected.state, "\(name) in \(state), session \(session ?? "none")")
            }
        }
    }

    @Test("Another session's event moves nothing while one is in progress, but for its activation", arguments: grid)
    func otherSession(_ name: EventName, _ cells: [String]) {
        guard name != .anchorLost else { return }
        for (state, cell) in zip(Self.states, cells) {
            let isInProgress = [.sessionActive, .inTransit, .atMerchant].contains(state)
            if isInProgress, name == .exclusiveActivatedByWeb { continue }
            let cell = isInProgress ? (Self.neverMoving.contains(name) ? "." : "x") : cell
            let before = Self.journey(in: state)
            var journey = before
            let verdict = journey.apply(.client(name, session: "other"))
            let expected = Self.read(cell, in: state)
            #expect(verdict == expected.verdict, "\(name) in \(state)")
            #expect(journey.state == expected.state, "\(name) in \(state)")
            if isInProgress { #expect(journey == before, "\(name) in \(state)") }
        }
    }

    @Test("A session that has ended does not begin again, and ends no other journey", arguments: grid)
    func endedSession(_ name: EventName, _ cells: [String]) {
        guard name != .anchorLost else { return }
        let beginsOrEnds = name == .exclusiveActivatedByWeb || name == .webRequestedEnd
        for (state, cell) in zip(Self.states, cells) {
            let isInProgress = [.sessionActive, .inTransit, .atMerchant].contains(state)
            var expectedCell = cell
            if isInProgress {
                expectedCell = Self.neverMoving.contains(name) ? "." : "x"
            } else if beginsOrEnds, cell == "S" || cell == "E" {
                expectedCell = "x"
            }
            let expected = Self.read(expectedCell, in: state)
            for evidence in [nil] + JourneyState.allCases.map(Optional.some) {
                var before = Self.journey(in: state)
                before.previousSessionID = "ended"
                var journey = before
                let place: Comment = "\(name) in \(state), evidence \(evidence?.rawValue ?? "none")"
                #expect(journey.apply(.client(name, session: "ended", was: evidence)) == expected.verdict, place)
                #expect(journey.state == expected.state, place)
                if expected.verdict.transition != .applied { #expect(journey == before, place) }
            }
        }
    }

    @Test("Session ids are compared by their bytes, not by how they look")
    func sessionBytes() {
        var journey = Journey(state: .sessionActive, sessionID: "caf\u{E9}", hardDeadline: .at(3000))
        #expect(journey.apply(.client(.departedCharger, session: "cafe\u{301}")) == .rejected(.noSuchTransition))
        #expect(journey.apply(.client(.departedCharger, session: "caf\u{E9}")) == .applied)
    }
}
