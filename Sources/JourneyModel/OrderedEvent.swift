/// The members of a stored event that the fold uses.
///
/// The operator `<` gives the contract's order (`EventOrder.swift`). Exception: `OrderWithinSecond.swift` can give
/// another order to events whose times are equal and have no fraction of a second.
public struct OrderedEvent: Hashable, Sendable {
    public enum Origin: UInt8, Hashable, Sendable {
        case client = 0
        /// An expiry: an event that the server stored because a deadline has passed. It comes after every client event
        /// of the same millisecond.
        case server = 1
    }

    /// Who sent an event. The sender decides whether the event can confirm an activation or a visit. The raw values are
    /// stored.
    public enum Sender: UInt8, Hashable, Sendable {
        /// The driver's app, if `TRUSTED_CONFIRMATIONS=any`: its events can confirm an activation or a visit. The
        /// expiry events that the server stores have this sender too.
        case app = 0
        /// The driver's app, if `TRUSTED_CONFIRMATIONS=service`: its events confirm neither activations nor visits.
        case unconfirmedApp = 1
        /// A service: a caller with a token of the role `service`. The visit that the server stores when the driver
        /// enters the right verification code has this sender too.
        case service = 2
    }

    public var name: EventName
    public var sessionID: String?
    public var chargerID: String?
    /// The time of the event, corrected for the error of the phone's clock.
    public var occurredAt: Moment
    public var sequence: Int64?
    public var eventID: String
    public var idempotencyKey: String
    public var origin: Origin
    public var sender: Sender
    /// The state before the event, as the client reported it. Nil if the client did not report it.
    public var previousState: JourneyState?
    /// Whether `occurred_at` was sent without a fraction of a second. OrderWithinSecond.swift orders the events of one
    /// second that have such times.
    public var isWholeSecond: Bool
    /// The values of `gracePeriodSeconds` and `hardTimeoutSeconds` that were in force when this event was stored.
    public var gracePeriodSeconds: Int
    public var hardTimeoutSeconds: Int

    public init(
        name: EventName, sessionID: String?, chargerID: String?, occurredAt: Moment, sequence: Int64?,
        eventID: String, idempotencyKey: String, origin: Origin, sender: Sender = .app,
        previousState: JourneyState? = nil, isWholeSecond: Bool = false, gracePeriodSeconds: Int,
        hardTimeoutSeconds: Int
    ) {
        self.name = name
        self.sessionID = sessionID
        self.chargerID = chargerID
        self.occurredAt = occurredAt
        self.sequence = sequence
        self.eventID = eventID
        self.idempotencyKey = idempotencyKey
        self.origin = origin
        self.sender = sender
        self.previousState = previousState
        self.isWholeSecond = isWholeSecond
        self.gracePeriodSeconds = gracePeriodSeconds
        self.hardTimeoutSeconds = hardTimeoutSeconds
    }
}
