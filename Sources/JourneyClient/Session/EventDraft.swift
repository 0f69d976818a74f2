// An event as the engine saw it, before it has an id; and its one JSON form (contract, section 3).

public import JourneyModel

/// An event to send. The queue gives it an id and a body that does not change any more.
public struct EventDraft: Hashable, Sendable {
    public var name: EventName
    public var sessionID: String?
    public var chargerID: String?
    public var merchantID: String?
    /// On the phone's clock; never before that of the draft made before this one.
    public var occurredAt: Moment
    /// Ascending by one; orders drafts of one millisecond.
    public var sequence: Int64
    /// Small facts about the event, no coordinates. Empty is left out.
    public var metadata: [JSONMember]
    /// Where the engine was before the event. It goes along as `metadata.previous_state`, so that an event that is lost
    /// is proven by the next one.
    public var previousState: JourneyState?

    public init(
        name: EventName, sessionID: String? = nil, chargerID: String? = nil, merchantID: String? = nil,
        occurredAt: Moment, sequence: Int64, metadata: [JSONMember] = [], previousState: JourneyState? = nil
    ) {
        self.name = name
        self.sessionID = sessionID
        self.chargerID = chargerID
        self.merchantID = merchantID
        self.occurredAt = occurredAt
        self.sequence = sequence
        self.metadata = metadata
        self.previousState = previousState
    }

    /// This event as the fold takes it, with the durations that `settings` give it. Two drafts of one engine are in
    /// the fold's order exactly when they are in the order in which they were made.
    ///
    /// - Parameter eventID: breaks ties of the order, which drafts of one engine never need.
    public func placed(by settings: Settings, eventID: String = "") -> OrderedEvent {
        OrderedEvent(
            name: name, sessionID: sessionID, chargerID: chargerID, occurredAt: occurredAt, sequence: sequence,
            eventID: eventID, idempotencyKey: eventID, origin: .client,
            previousState: previousState,
            gracePeriodSeconds: settings.gracePeriodSeconds, hardTimeoutSeconds: settings.hardTimeoutSeconds)
    }
}

/// Whether the app was on the screen when the event happened. Raw values are the wire's.
public enum AppState: String, Hashable, Sendable {
    case foreground
    case background
}

extension EventDraft {
    /// The body of `POST /native/events`.
    ///
    /// - Parameter queuedAt: becomes `timestamp`. It is not when the event is sent: that is the header `X-Sent-At`,
    ///   so that the body stays the same over retries.
    func body(eventID: String, queuedAt: Moment, source: String, appState: AppState?) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 384)
        func member(_ name: String, _ text: String?) {
            guard let text else { return }
            writer.name(name)
            writer.string(text)
        }
        writer.beginObject()
        member("schema_version", "1.0")
        member("event_id", eventID)
        member("session_id", sessionID)
        member("charger_id", chargerID)
        member("merchant_id", merchantID)
        member("event", name.canonical)
        member("occurred_at", RFC3339.text(of: occurredAt))
        member("timestamp", RFC3339.text(of: queuedAt))
        member("source", source)
        member("app_state", appState?.rawValue)
        writer.name("sequence")
        writer.integer(sequence)
        let evidence = previousState.map { JSONMember("previous_state", .string($0.rawValue)) }
        if !metadata.isEmpty || evidence != nil {
            writer.name("metadata")
            writer.value(.object(metadata + [evidence].compactMap(\.self)))
        }
        writer.endObject()
        return writer.bytes
    }
}
