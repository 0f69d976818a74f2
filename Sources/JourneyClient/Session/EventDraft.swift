// An event made by the engine, before it has an id; and its one JSON form (contract, section 3).

public import JourneyModel

/// An event to send. The queue gives it an id and a final body.
public struct EventDraft: Hashable, Sendable {
    public var name: EventName
    public var sessionID: String?
    public var chargerID: String?
    public var merchantID: String?
    /// On the phone's clock; never before the previous draft's.
    public var occurredAt: Moment
    /// Incremented by one for each draft; orders drafts of the same millisecond.
    public var sequence: Int64
    /// Small facts about the event, no coordinates. Omitted when empty.
    public var metadata: [JSONMember]
    /// The engine's state before the event. Sent as `metadata.previous_state`, so that an event proves earlier events
    /// that were lost.
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

    /// Returns this event in the form that the fold takes, with the durations of `settings`. The fold applies drafts
    /// of one engine in the order in which they were made.
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
    /// Returns the body of `POST /native/events`.
    ///
    /// - Parameter queuedAt: becomes `timestamp`. The time of sending goes into the header `X-Sent-At` instead, so
    ///   that the body stays the same over retries.
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
