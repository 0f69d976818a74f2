// Orders events that have the same time in whole seconds and the same sequence or none (contract, section 1, "The
// order").
//
// If a client's times are in whole seconds, they do not show in which order the events of one second happened. The
// order is therefore derived from the state of the journey: if possible, each event is legal after the events before
// it.

/// Finds the order of several events. `sharesSecond` must be true for every two of them.
public enum OrderWithinSecond {
    /// The maximum number of events of one second that `order` arranges by its rules. Further events follow in order of
    /// arrival. The limit is needed because the work grows with the cube of the number of events.
    public static let searchedMax = 32

    /// Returns the order of `events`, as indexes into it.
    ///
    /// The events are taken one after the other. The next event comes from the first of these groups that is not empty:
    ///
    /// 1. events that move the state, and events without a transition that fit the present state.
    /// 2. other events without a transition, by lifecycle rank and ids.
    /// 3. rejected events, by lifecycle rank and ids.
    ///
    /// An event without a transition fits if it reports the present state as its previous state. It also fits if it
    /// reports no previous state and sets the target.
    ///
    /// In the first group, the following criteria decide which event comes next. Each criterion decides only between
    /// events that are equal by all criteria before it:
    ///
    /// 1. The event after which the fewest other events are impossible. An event that needs implied steps counts as
    ///    possible.
    /// 2. An event that is legal now without implied steps, by the table and by the event's evidence.
    /// 3. The event that needs the fewest implied steps.
    /// 4. The event after which the fewest other events are impossible. Here, an event that needs implied steps counts
    ///    as impossible.
    /// 5. An event that does not end the journey. If all of these events end it, the event with the lowest lifecycle
    ///    rank.
    /// 6. The event that arrived first.
    ///
    /// An event is impossible if the other events lead to no state in which it is legal. Events that differ only in
    /// their ids are ordered by their ids.
    ///
    /// - Parameters:
    ///   - events: in order of arrival.
    ///   - journey: the journey before these events. All deadlines before these events must be applied to it already.
    public static func order(of events: [OrderedEvent], from journey: Journey) -> [Int] {
        guard events.count > 1 else { return Array(events.indices) }
        var journey = journey
        var left = events.indices.prefix(searchedMax).map { Candidate(index: $0, event: events[$0]) }
        var order: [Int] = []
        order.reserveCapacity(events.count)
        while let place = next(of: left, of: events, in: journey) {
            let taken = left.remove(at: place)
            _ = journey.apply(events[taken.index])
            order.append(taken.index)
        }
        return order + events.indices.dropFirst(searchedMax)
    }

    /// Returns the index in `left` of the event that comes next.
    private static func next(of left: [Candidate], of events: [OrderedEvent], in journey: Journey) -> Int? {
        guard var best = left.indices.first else { return nil }
        guard left.count > 1 else { return best }
        func event(_ place: Int) -> OrderedEvent { events[left[place].index] }
        var fit = Fit(event(best), left[best], among: left, in: journey)
        for place in left.indices.dropFirst() {
            let other = Fit(event(place), left[place], among: left, in: journey)
            if other.precedes(fit, isEarlierById: event(place).precedesByRank(event(best))) {
                (best, fit) = (place, other)
            }
        }
        // Several events may be alike for the fold (`isSame`). Of these, the first by rank and ids is taken, so that
        // their order of arrival does not matter.
        let chosen = event(best)
        for place in left.indices where event(place).isSame(asFact: chosen) {
            if event(place).precedesByRank(event(best)) { best = place }
        }
        return best
    }
}

/// An event whose position in the order is not determined yet.
private struct Candidate {
    /// The event's index in the order of arrival.
    let index: Int
    /// `sources` are the states from which the event's transition implies no step, or only a reset. If the event has
    /// evidence, `sources` contains only the state that the phone reported.
    ///
    /// `destination` is the state after the transition. Both sets are empty if the event never moves the state, or if
    /// `isUnconfirmedClaim` is true.
    let sources: StateSet
    let destination: StateSet

    init(index: Int, event: OrderedEvent) {
        self.index = index
        var (sources, destination) = (StateSet(), StateSet())
        for state in JourneyState.allCases where !event.isUnconfirmedClaim {
            guard case .to(let end, let implied) = Transition(from: state, on: event.name) else { continue }
            if let evidence = event.evidence {
                if evidence != state { continue }
            } else if !implied.isEmpty, implied != .reset {
                continue
            }
            sources.insert(StateSet(state))
            destination = StateSet(end)
        }
        (self.sources, self.destination) = (sources, destination)
    }
}

private struct StateSet: OptionSet {
    var rawValue: UInt8

    init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    init(_ state: JourneyState) {
        let bit: UInt8 =
            switch state {
            case .idle: 0
            case .nearCharger: 1
            case .anchored: 2
            case .sessionActive: 3
            case .inTransit: 4
            case .atMerchant: 5
            case .sessionEnded: 6
            }
        rawValue = 1 << bit
    }

    /// These states, and every state to which implied steps can lead from them without a reset. After a reset, another
    /// journey begins.
    var withImpliedSteps: StateSet {
        JourneyState.allCases.reduce(into: self) { all, start in
            if contains(StateSet(start)) { all.formUnion(Self.reached(from: start)) }
        }
    }

    private static func reached(from start: JourneyState) -> StateSet {
        switch start {
        case .idle, .nearCharger, .anchored: StateSet(rawValue: 0b011_1111)
        case .sessionActive: StateSet(rawValue: 0b011_1000)
        case .inTransit: StateSet(rawValue: 0b011_0000)
        case .atMerchant, .sessionEnded: StateSet(start)
        }
    }
}

/// The values by which an event is compared with other candidates for the next event.
private struct Fit {
    private enum Kind: Int {
        case legal
        case legalWithImpliedSteps
        case noEffect
        case rejected
    }

    private let kind: Kind
    private let impliedCount: Int
    /// How many of the other events become impossible after this event. `unreachable` counts only the events that
    /// implied steps cannot make possible either. `illegal` also counts the events that implied steps make possible.
    private let unreachable: Int
    private let illegal: Int
    /// 0 for an event that does not end the journey; otherwise the event's lifecycle rank.
    private let endRank: UInt8

    init(_ event: OrderedEvent, _ candidate: Candidate, among left: [Candidate], in journey: Journey) {
        let course = journey.course(of: event)
        switch course.transition {
        case .rejected: self.init(.rejected)
        case .stays:
            let takesEffect =
                event.name == .chargerTargeted && event.chargerID != nil
                && [.idle, .nearCharger, .sessionEnded].contains(journey.state)
            let isHere = event.previousState.map { $0 == journey.state } ?? takesEffect
            self.init(isHere ? .legal : .noEffect)
        case .to(let destination, let further):
            let implied = course.implied.union(further)
            // If the event's evidence (the state that the phone reported) is the journey's state, no event is missing.
            // Steps that the table implies for the event are then not counted.
            let isExact = event.evidence.map { $0 == journey.state } ?? implied.isEmpty
            let start = StateSet(destination)
            self.init(
                isExact ? .legal : .legalWithImpliedSteps, impliedCount: isExact ? 0 : implied.count,
                unreachable: Self.count(notFrom: start, after: candidate, left, implying: true),
                illegal: Self.count(notFrom: start, after: candidate, left, implying: false),
                endRank: destination == .sessionEnded ? event.name.lifecycleRank : 0)
        }
    }

    private init(_ kind: Kind, impliedCount: Int = 0, unreachable: Int = 0, illegal: Int = 0, endRank: UInt8 = 0) {
        self.kind = kind
        self.impliedCount = impliedCount
        self.unreachable = unreachable
        self.illegal = illegal
        self.endRank = endRank
    }

    /// Returns how many events of `left` become impossible after `candidate`, which leads to `start`. An event is
    /// impossible if the other events lead from `start` to none of the event's `sources`. If `implying` is true,
    /// implied steps count like other events.
    private static func count(
        notFrom start: StateSet, after candidate: Candidate, _ left: [Candidate], implying: Bool
    ) -> Int {
        var reached = implying ? start.withImpliedSteps : start
        var before: StateSet
        repeat {
            before = reached
            for other in left where other.index != candidate.index && !other.sources.isDisjoint(with: reached) {
                reached.formUnion(implying ? other.destination.withImpliedSteps : other.destination)
            }
        } while reached != before
        return left.count { $0.index != candidate.index && !$0.sources.isEmpty && $0.sources.isDisjoint(with: reached) }
    }

    private var moves: Bool { kind == .legal || kind == .legalWithImpliedSteps }

    /// Returns whether this event comes before the other event. Between two events of the same kind that do not move
    /// the state, `isEarlierById` decides. If no criterion decides, the result is false, so the events stay in order of
    /// arrival.
    func precedes(_ other: Fit, isEarlierById: @autoclosure () -> Bool) -> Bool {
        guard moves, other.moves else {
            return kind != other.kind ? kind.rawValue < other.kind.rawValue : isEarlierById()
        }
        if unreachable != other.unreachable { return unreachable < other.unreachable }
        if kind != other.kind { return kind == .legal }
        if impliedCount != other.impliedCount { return impliedCount < other.impliedCount }
        if illegal != other.illegal { return illegal < other.illegal }
        return endRank < other.endRank
    }
}

extension OrderedEvent {
    /// Returns whether the fold treats both events alike.
    fileprivate func isSame(asFact other: OrderedEvent) -> Bool {
        name == other.name && sender == other.sender && previousState == other.previousState
            && gracePeriodSeconds == other.gracePeriodSeconds
            && hardTimeoutSeconds == other.hardTimeoutSeconds && haveSameBytes(sessionID, other.sessionID)
            && haveSameBytes(chargerID, other.chargerID)
    }
}
