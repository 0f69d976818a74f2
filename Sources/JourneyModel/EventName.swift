// The names of events (contract, section 1). A table lists each name's two spellings, its lifecycle rank, and whether
// the event requires a session.

/// The name of an event. Two cases share the canonical name `exitedChargerAnchorZone` (contract, section 1):
/// `departedCharger` for an event with a session, and `anchorLost` for an event without one.
public enum EventName: Hashable, Sendable {
    case chargerTargeted
    case enteredChargerIntentZone
    case exitedChargerIntentZone
    case anchorDwellComplete
    /// exitedChargerAnchorZone without a session.
    case anchorLost
    case activationRejected
    case exclusiveActivatedByWeb
    /// exitedChargerAnchorZone with a session.
    case departedCharger
    case enteredMerchantZone
    case visitVerifiedByWeb
    case webRequestedEnd
    case gracePeriodExpired
    case hardTimeoutExpired
    case reset
    case sessionRestored
    /// Any other name that matches `[A-Za-z][A-Za-z0-9_]{0,63}`. Such an event is stored and forwarded, and never
    /// causes a transition.
    case diagnostic(String)
}

extension EventName {
    /// The names that the contract lists, in ascending order of lifecycle rank.
    public static let listed: [EventName] = [
        .chargerTargeted, .enteredChargerIntentZone, .exitedChargerIntentZone, .anchorDwellComplete, .anchorLost,
        .activationRejected, .exclusiveActivatedByWeb, .departedCharger, .enteredMerchantZone, .visitVerifiedByWeb,
        .webRequestedEnd, .gracePeriodExpired, .hardTimeoutExpired, .reset, .sessionRestored,
    ]

    private struct Row {
        var canonical: String
        var v1Spelling: String
        var requiresSession: Bool
        var lifecycleRank: UInt8

        init(_ canonical: String, _ v1Spelling: String, session: Bool, rank: UInt8) {
            self.canonical = canonical
            self.v1Spelling = v1Spelling
            requiresSession = session
            lifecycleRank = rank
        }
    }

    private var row: Row {
        switch self {
        case .chargerTargeted: Row("chargerTargeted", "charger_targeted", session: false, rank: 0)
        case .enteredChargerIntentZone:
            Row("enteredChargerIntentZone", "entered_charger_intent_zone", session: false, rank: 1)
        case .exitedChargerIntentZone:
            Row("exitedChargerIntentZone", "exited_charger_intent_zone", session: false, rank: 2)
        case .anchorDwellComplete: Row("anchorDwellComplete", "anchor_dwell_complete", session: false, rank: 3)
        case .anchorLost: Row("exitedChargerAnchorZone", "anchor_lost", session: false, rank: 4)
        case .activationRejected: Row("activationRejected", "activation_rejected", session: false, rank: 5)
        case .exclusiveActivatedByWeb: Row("exclusiveActivatedByWeb", "exclusive_activated", session: true, rank: 6)
        case .departedCharger: Row("exitedChargerAnchorZone", "departed_charger", session: true, rank: 7)
        case .enteredMerchantZone: Row("enteredMerchantZone", "entered_merchant_zone", session: true, rank: 8)
        case .visitVerifiedByWeb: Row("visitVerifiedByWeb", "visit_verified", session: true, rank: 9)
        case .webRequestedEnd: Row("webRequestedEnd", "web_requested_end", session: false, rank: 10)
        case .gracePeriodExpired: Row("gracePeriodExpired", "grace_period_expired", session: true, rank: 11)
        case .hardTimeoutExpired: Row("hardTimeoutExpired", "hard_timeout_expired", session: true, rank: 12)
        case .reset: Row("reset", "reset", session: true, rank: 13)
        case .sessionRestored: Row("sessionRestored", "session_restored", session: true, rank: 14)
        case .diagnostic(let name): Row(name, name, session: false, rank: 15)
        }
    }

    /// The name as stored and forwarded.
    public var canonical: String { row.canonical }

    /// The spelling of shipped v1 clients. For a diagnostic event, the name as sent.
    public var v1Spelling: String { row.v1Spelling }

    /// Whether an event of this name must have a `session_id`.
    public var requiresSession: Bool { row.requiresSession }

    /// Whether the event confirms what only the web or a partner can observe: an activation or a visit. Under
    /// `TRUSTED_CONFIRMATIONS=service`, such an event has an effect only if a service sent it.
    public var isConfirmation: Bool { self == .exclusiveActivatedByWeb || self == .visitVerifiedByWeb }

    /// The rank that orders events of one millisecond if an earlier criterion, such as `sequence`, does not order them.
    /// The names in `listed` have the ranks 0 to 14, and diagnostic events have 15.
    public var lifecycleRank: UInt8 { row.lifecycleRank }

    /// Returns the event's name in analytics. The prefix says whether the event has a `session_id`.
    public func analyticsName(hasSession: Bool) -> String {
        (hasSession ? "native_session_" : "native_presession_") + canonical
    }
}
