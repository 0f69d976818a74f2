// The order of events that came with one time in whole seconds and one sequence, or none (contract, section 1, "The
// order"): one after the other, whichever is legal after those before it. Clients that send whole seconds send what
// happened within one in any order, and nothing but the journey tells which came first.

/// Finds the order of events that all `sharesSecond` with each other.
public enum OrderWithinSecond {
    /// So many events of one second, the first to arrive, are put in order; any more follow them in the order of
    /// arrival. A phone has a handful, and the work grows with the cube.
    public static let searchedMax = 32

    /// The order of `events`, as indexes into it.
    ///
    /// Each time the next one is taken from the first of these that has any:
    ///
    /// 1. what moves the state. Of several the one after which the fewest of the rest are out of reach, implied steps
    ///    counted in; then one that is legal as it is, by the table and by its evidence, before one with implied steps, of
    ///    those the fewest first; then the one after which the most of the rest are legal without implied steps; then one
    ///    that does not end the journey, and of ends the lowest lifecycle rank; then the first to arrive.
    /// 2. what moves nothing, by lifecycle rank and ids.
    /// 3. what is rejected, by lifecycle rank and ids.
    ///
    /// Events that are the same to the fold stand in the order of their ids.
    ///
    /// - Parameters:
    ///   - events: in the order of arrival.
    ///   - journey: before the first of them, deadlines that lie before them taken.
    public static func order(of events: [OrderedEvent], from journey: Journey) -> [Int] {
        guard events.count > 1 else { return Array(events.indices) }
        var journey = journey
        var left = events.indices.prefix(searchedMax).map { Candidate(index: $0, event: events[$0]) }
        var order: [Int] = []
        order.reserveCapacity(events.count)
        while let place = next(of: left, in: journey) {
            let taken = left.remove(at: place)
            _ = journey.apply(taken.event)
            order.append(taken.index)
        }
        return order + events.indices.dropFirst(searchedMax)
    }

    private static func next(of left: [Candidate], in journey: Journey) -> Int? {
        guard var best = left.indices.first else { return nil }
        guard left.count > 1 else { return best }
        var fit = Fit(left[best], among: left, in: journey)
        for place in left.indices.dropFirst() {
            let other = Fit(left[place], among: left, in: journey)
            if other.precedes(fit, isEarlierById: left[place].event.precedesByRank(left[best].event)) {
                (best, fit) = (place, other)
            }
        }
        // Of several that are the same to the fold, it does not matter which: so it is always the same one.
        let chosen = left[best].event
        for place in left.indices where left[place].event.isSame(asFact: chosen) {
            if left[place].event.precedesByRank(left[best].event) { best = place }
        }
        return best
    }
}

/// An event that has no place yet.
private struct Candidate {
    let index: Int
    let event: OrderedEvent
    /// From where its transition leads without implied steps, and where to; both empty for what moves nothing.
    let sources: StateSet
    let destination: StateSet

    init(index: Int, event: OrderedEvent) {
        self.index = index
        self.event = event
        var (sources, destination) = (StateSet(), StateSet())
        for state in JourneyState.allCases {
            guard case .to(let end, let implied) = Transition(from: state, on: event.name) else { continue }
            if let evidence = event.evidence {
                if evidence != state { continue }
            } else if !implied.isEmpty, implied != .reset {
                // Without the event that it skips it would be legal in that state, but not the only one that is.
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

    /// With all that implied steps lead to from one of them, but for those that begin with a reset: what would need one
    /// is of another journey.
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

/// How well an event comes next.
private struct Fit {
    private enum Kind: Int {
        case legal
        case legalByImplication
        case staysWhereItIs
        case rejected
    }

    private let kind: Kind
    private let impliedCount: Int
    /// Of the others, how many nothing leads to any more, with implied steps and without.
    private let outOfReach: Int
    private let illegal: Int
    /// 0 for what does not end the journey, else its lifecycle rank.
    private let endRank: UInt8

    init(_ candidate: Candidate, among left: [Candidate], in journey: Journey) {
        let event = candidate.event
        let course = journey.course(of: event)
        switch course.transition {
        case .rejected: self.init(.rejected)
        case .stays:
            let takesEffect =
                event.name == .chargerTargeted && event.chargerID != nil
                && [.idle, .nearCharger, .sessionEnded].contains(journey.state)
            let isHere = event.previousState.map { $0 == journey.state } ?? takesEffect
            self.init(isHere ? .legal : .staysWhereItIs)
        case .to(let destination, let further):
            let implied = course.implied.union(further)
            // What the table itself implies for a phone in this very state is nothing that is missing.
            let isExact = event.evidence.map { $0 == journey.state } ?? implied.isEmpty
            let start = StateSet(destination)
            self.init(
                isExact ? .legal : .legalByImplication, impliedCount: isExact ? 0 : implied.count,
                outOfReach: Self.count(notFrom: start, after: candidate, left, implying: true),
                illegal: Self.count(notFrom: start, after: candidate, left, implying: false),
                endRank: destination == .sessionEnded ? event.name.lifecycleRank : 0)
        }
    }

    private init(_ kind: Kind, impliedCount: Int = 0, outOfReach: Int = 0, illegal: Int = 0, endRank: UInt8 = 0) {
        self.kind = kind
        self.impliedCount = impliedCount
        self.outOfReach = outOfReach
        self.illegal = illegal
        self.endRank = endRank
    }

    /// How many of the others begin in no state that the others lead to from `start`.
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

    private var moves: Bool { kind == .legal || kind == .legalByImplication }

    /// `isEarlierById`: by rank and ids. Equal otherwise, the first to arrive stays the first.
    func precedes(_ other: Fit, isEarlierById: Bool) -> Bool {
        guard moves, other.moves else {
            return kind != other.kind ? kind.rawValue < other.kind.rawValue : isEarlierById
        }
        if outOfReach != other.outOfReach { return outOfReach < other.outOfReach }
        if kind != other.kind { return kind == .legal }
        if impliedCount != other.impliedCount { return impliedCount < other.impliedCount }
        if illegal != other.illegal { return illegal < other.illegal }
        return endRank < other.endRank
    }
}

extension OrderedEvent {
    /// Whether the fold cannot tell them apart.
    fileprivate func isSame(asFact other: OrderedEvent) -> Bool {
        name == other.name && previousState == other.previousState && gracePeriodSeconds == other.gracePeriodSeconds
            && hardTimeoutSeconds == other.hardTimeoutSeconds && haveSameBytes(sessionID, other.sessionID)
            && haveSameBytes(chargerID, other.chargerID)
    }
}
