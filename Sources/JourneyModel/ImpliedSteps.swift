// Implied steps: steps of a journey that no event reported, but that a later event proves (contract, section 1, "What
// is implied"). Evidence.swift and Transition.swift decide which steps an event implies.

/// The implied steps of one verdict (the fold's result for one event). A set is enough, because a verdict implies each
/// step at most once, always in the order of `inOrder`.
///
/// The bits are stored in databases, so a bit must never be reused for another step.
public struct ImpliedSteps: OptionSet, Hashable, Sendable {
    public var rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The start of the next journey, even if the present journey has not ended.
    public static let reset = ImpliedSteps(rawValue: 1)
    public static let enteredChargerIntentZone = ImpliedSteps(rawValue: 2)
    public static let anchorDwellComplete = ImpliedSteps(rawValue: 4)
    public static let anchorLost = ImpliedSteps(rawValue: 8)
    public static let exitedChargerIntentZone = ImpliedSteps(rawValue: 16)
    public static let exclusiveActivatedByWeb = ImpliedSteps(rawValue: 32)
    public static let departedCharger = ImpliedSteps(rawValue: 64)
    public static let enteredMerchantZone = ImpliedSteps(rawValue: 128)

    /// The steps that lead forward, each with the state before it. The state after a step is `from` of the next entry.
    /// After the last step, it is AT_MERCHANT.
    private static let forward: [(from: JourneyState, step: ImpliedSteps)] = [
        (.idle, .enteredChargerIntentZone), (.nearCharger, .anchorDwellComplete),
        (.anchored, .exclusiveActivatedByWeb), (.sessionActive, .departedCharger), (.inTransit, .enteredMerchantZone),
    ]

    /// All steps. Every path takes its steps in this order.
    private static let steps: [(step: ImpliedSteps, name: EventName)] = [
        (.reset, .reset), (.enteredChargerIntentZone, .enteredChargerIntentZone),
        (.anchorDwellComplete, .anchorDwellComplete), (.anchorLost, .anchorLost),
        (.exitedChargerIntentZone, .exitedChargerIntentZone), (.exclusiveActivatedByWeb, .exclusiveActivatedByWeb),
        (.departedCharger, .departedCharger), (.enteredMerchantZone, .enteredMerchantZone),
    ]

    public var count: Int { rawValue.nonzeroBitCount }

    /// The events of the steps, in the order in which the steps happen.
    public var inOrder: [EventName] {
        isEmpty ? [] : Self.steps.filter { contains($0.step) }.map(\.name)
    }

    /// Like `inOrder`, but without allocating an array.
    func forEachInOrder(_ body: (EventName) -> Void) {
        for (step, name) in Self.steps where contains(step) { body(name) }
    }

    /// The canonical names of the steps, in order. On the wire, they are the member `implied`.
    public var names: [String] { inOrder.map(\.canonical) }

    /// Reads the names in the member `implied` on the wire. Ignores names unknown to this release.
    ///
    /// The name `exitedChargerAnchorZone` can mean the departure from the charger, or the lost anchor: the exit from
    /// the anchor zone before a session. The first of these rules that applies decides:
    ///
    /// - The list has another step of a session: departure.
    /// - The list has the dwell or the exit from the intent zone: lost anchor.
    /// - The driver's present state, `state`, is a state within or after a session: departure.
    /// - Otherwise: lost anchor.
    public init(names: [String], state: JourneyState) {
        self = []
        for name in names where name != EventName.anchorLost.canonical {
            if let known = Self.steps.first(where: { $0.name.canonical == name }) { insert(known.step) }
        }
        guard names.contains(EventName.anchorLost.canonical) else { return }
        let isInSession = !isDisjoint(with: [.exclusiveActivatedByWeb, .enteredMerchantZone])
        let isBefore = !isDisjoint(with: [.anchorDwellComplete, .exitedChargerIntentZone])
        let isDeparture = isInSession || !isBefore && (state.hasSessionInProgress || state == .sessionEnded)
        insert(isDeparture ? .departedCharger : .anchorLost)
    }

    /// Returns the steps of the shortest path from `start` to `end`, or nil if there is no path. A path from
    /// SESSION_ENDED begins with the reset. No path leads to SESSION_ENDED, because the reason for a session's end is
    /// never implied.
    static func path(from start: JourneyState, to end: JourneyState) -> ImpliedSteps? {
        switch (start, end) {
        case (_, _) where start == end: return []
        case (_, .sessionEnded): return nil
        case (.sessionEnded, _): return path(from: .idle, to: end)?.union(.reset)
        case (.nearCharger, .idle): return .exitedChargerIntentZone
        case (.anchored, .nearCharger): return .anchorLost
        case (.anchored, .idle): return [.anchorLost, .exitedChargerIntentZone]
        default:
            guard let first = forward.firstIndex(where: { $0.from == start }) else { return nil }
            let last = forward.firstIndex { $0.from == end } ?? forward.count
            return first < last ? forward[first..<last].reduce(into: []) { $0.insert($1.step) } : nil
        }
    }
}
