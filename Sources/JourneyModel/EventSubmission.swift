/// One decoded event of a client, with valid members. The store still has to check its idempotency key and the driver
/// of its session.
public struct EventSubmission: Hashable, Sendable {
    public var name: EventName
    /// The client's own spelling of the name, stored in addition to the canonical one.
    public var spelling: String
    public var schemaVersion: String
    /// 1 to 128 printable ASCII characters.
    public var eventID: String
    /// The driver that the event names (`driver_id`); nil if it names none.
    public var driverID: String?
    /// The key that the client sent: 1 to 128 printable ASCII characters, case-sensitive. If the client is a service,
    /// `servicePrefix` precedes these characters. The key must be unique among the driver's events.
    public var idempotencyKey: String
    public var sessionID: String?
    public var chargerID: String?
    public var merchantID: String?
    /// The time as sent, not corrected for the error of the phone's clock.
    public var occurredAt: Moment
    /// `occurred_at` exactly as sent, with its offset and its digits.
    public var occurredAtText: String
    /// The header `X-Sent-At`: the time of this attempt by the phone's clock.
    public var sentAt: Moment?
    /// `timestamp` of the body. A retry that sends the same bytes repeats this time.
    public var timestamp: Moment?
    public var source: String
    public var appState: String?
    public var sequence: Int64?
    /// A JSON object in compact form, with its members in the order sent. It has at most 8 KiB of UTF-8.
    public var metadata: String?
    /// `metadata.previous_state` if it is the name of a state: the client's state before the event.
    public var previousState: JourneyState?
    /// The members of `EventDetail.all` that the client sent, as a compact JSON object in the order of `all`. Nil if
    /// the client sent none.
    public var details: String?
    /// A client's event as canonical JSON in ASCII. The store keeps a hash of this form, to tell a repeat of the event
    /// from another event with the same key.
    ///
    /// A repeat may have another `app_state` and `schema_version` than the stored event, and therefore another form.
    /// See `canonicalForm(appState:schemaVersion:)`.
    ///
    /// For an event that the server itself makes, the form is only the event's id and not JSON.
    public var canonicalForm: [UInt8]

    public init(
        name: EventName, spelling: String, schemaVersion: String = "1.0", eventID: String, idempotencyKey: String,
        driverID: String? = nil, sessionID: String? = nil, chargerID: String? = nil, merchantID: String? = nil,
        occurredAt: Moment,
        occurredAtText: String, sentAt: Moment? = nil, timestamp: Moment? = nil, source: String = "ios_native",
        appState: String? = nil, sequence: Int64? = nil, metadata: String? = nil, previousState: JourneyState? = nil,
        details: String? = nil, canonicalForm: [UInt8]
    ) {
        self.name = name
        self.spelling = spelling
        self.schemaVersion = schemaVersion
        self.eventID = eventID
        self.idempotencyKey = idempotencyKey
        self.driverID = driverID
        self.sessionID = sessionID
        self.chargerID = chargerID
        self.merchantID = merchantID
        self.occurredAt = occurredAt
        self.occurredAtText = occurredAtText
        self.sentAt = sentAt
        self.timestamp = timestamp
        self.source = source
        self.appState = appState
        self.sequence = sequence
        self.metadata = metadata
        self.previousState = previousState
        self.details = details
        self.canonicalForm = canonicalForm
    }
}

extension EventSubmission {
    /// The beginning of the stored idempotency key of every event of a service. An app cannot send such a key, because
    /// `§` is not an ASCII character.
    public static let servicePrefix = "\u{A7}service/"

    /// Returns the visitVerifiedByWeb that the server stores when the driver enters the right verification code. The
    /// event's id depends only on the session, so the event is stored at most once per session.
    package static func verification(ofSession sessionID: String, at acceptedAt: Moment) -> EventSubmission {
        let id = "\u{A7}verification/\(sessionID)"
        return EventSubmission(
            name: .visitVerifiedByWeb, spelling: EventName.visitVerifiedByWeb.canonical, eventID: id,
            idempotencyKey: id, sessionID: sessionID, occurredAt: acceptedAt,
            occurredAtText: RFC3339.text(of: acceptedAt), source: "web", canonicalForm: Array(id.utf8))
    }

    /// Whether `occurred_at` was sent without a fraction of a second.
    public var isWholeSecond: Bool { !occurredAtText.utf8.contains(UInt8(ascii: ".")) }
}
