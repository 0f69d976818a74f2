// An event of the engine before it gets an id, and the event's JSON form (contract, section 3).

public import JourneyModel

/// An event to send. The queue gives it an id and a final body.
public struct EventDraft: Hashable, Sendable {
    public var name: EventName
    public var sessionID: String?
    public var chargerID: String?
    public var merchantID: String?
    /// The time of the event by the phone's clock. It is never earlier than the previous draft's time, unless the clock
    /// was set back by more than five minutes between the two drafts.
    public var occurredAt: Moment
    /// A number that is one higher for each draft. It orders drafts of the same millisecond.
    public var sequence: Int64
    /// Further data about the event, without coordinates. Not sent if empty.
    public var metadata: [JSONMember]
    /// The engine's state before the event, sent as `metadata.previous_state`. The server compares this state with its
    /// own, to detect that earlier events were lost. Nil in the report of a passed deadline, and in an event of a
    /// session on another phone.
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

    /// Returns this event in the form that the fold takes. The grace period and the hard timeout come from `settings`.
    ///
    /// - Parameter eventID: may be empty for drafts of one engine. Ids are compared only if everything else is equal,
    ///   and each draft has its own `sequence`.
    public func placed(by settings: Settings, eventID: String = "") -> OrderedEvent {
        OrderedEvent(
            name: name, sessionID: sessionID, chargerID: chargerID, occurredAt: occurredAt, sequence: sequence,
            eventID: eventID, idempotencyKey: eventID, origin: .client,
            previousState: previousState,
            gracePeriodSeconds: settings.gracePeriodSeconds, hardTimeoutSeconds: settings.hardTimeoutSeconds)
    }
}

/// Whether the app was on the screen when the event happened. Raw values are the spelling on the wire.
public enum AppState: String, Hashable, Sendable {
    case foreground
    case background
}

extension EventDraft {
    /// Returns the body of `POST /native/events`.
    ///
    /// - Parameter queuedAt: becomes `timestamp`. The time of sending is not in the body but in the header `X-Sent-At`,
    ///   so that the body stays the same in every retry.
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
