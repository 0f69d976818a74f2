import JourneyModel

extension Moment {
    /// Returns the moment `seconds` after an arbitrary start, rounded to milliseconds.
    static func at(_ seconds: Double) -> Moment {
        Moment(millisecondsSinceEpoch: 1_795_000_000_000 + Int64((seconds * 1000).rounded()))
    }
}

extension OrderedEvent {
    static func client(
        _ name: EventName, at occurredAt: Moment = .at(0), session: String? = nil, charger: String? = nil,
        sequence: Int64? = nil, id: String = "e1", key: String? = nil, was previousState: JourneyState? = nil,
        isWholeSecond: Bool = false, from sender: Sender = .app, graceSeconds: Int = 900, hardSeconds: Int = 3600
    ) -> OrderedEvent {
        OrderedEvent(
            name: name, sessionID: session, chargerID: charger, occurredAt: occurredAt, sequence: sequence,
            eventID: id, idempotencyKey: key ?? id, origin: .client, sender: sender, previousState: previousState,
            isWholeSecond: isWholeSecond, gracePeriodSeconds: graceSeconds,
            hardTimeoutSeconds: hardSeconds)
    }
}

let allNames = EventName.listed + [.diagnostic("teleport_detected")]
