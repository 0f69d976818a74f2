/// A stored event as the fold sees it: its meaning, its place in the order, and the durations in force when it was
/// stored. `<` is the contract's order (`EventOrder.swift`), except for events within the same second whose
/// times have no fraction: their order depends on the journey before them (`OrderWithinSecond.swift`).
public struct OrderedEvent: Hashable, Sendable {
    public enum Origin: UInt8, Hashable, Sendable {
        case client = 0
        /// An expiry stored by the server; comes after every client event of its millisecond.
        case server = 1
    }

    public var name: EventName
    public var sessionID: String?
    public var chargerID: String?
    /// Corrected for the phone's clock.
    public var occurredAt: Moment
    public var sequence: Int64?
    public var eventID: String
    public var idempotencyKey: String
    public var origin: Origin
    /// The state that the client reports it was in before the event; nil when not reported.
    public var previousState: JourneyState?
    /// Whether `occurred_at` came without a fraction of a second. The fold orders such events of one time by which of
    /// them is legal next (OrderWithinSecond.swift).
    public var isWholeSecond: Bool
    /// `gracePeriodSeconds` and `hardTimeoutSeconds` of the settings stored with this event.
    public var gracePeriodSeconds: Int
    public var hardTimeoutSeconds: Int

    public init(
        name: EventName, sessionID: String?, chargerID: String?, occurredAt: Moment, sequence: Int64?,
        eventID: String, idempotencyKey: String, origin: Origin, previousState: JourneyState? = nil,
        isWholeSecond: Bool = false, gracePeriodSeconds: Int, hardTimeoutSeconds: Int
    ) {
        self.name = name
        self.sessionID = sessionID
        self.chargerID = chargerID
        self.occurredAt = occurredAt
        self.sequence = sequence
        self.eventID = eventID
        self.idempotencyKey = idempotencyKey
        self.origin = origin
        self.previousState = previousState
        self.isWholeSecond = isWholeSecond
        self.gracePeriodSeconds = gracePeriodSeconds
        self.hardTimeoutSeconds = hardTimeoutSeconds
    }
}
