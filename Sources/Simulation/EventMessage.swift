// One scripted event on the wire: its body, which never changes between deliveries, and the requests that carry it.

import JourneyClient
import JourneyModel

/// A scripted event with its identity and its times.
struct EventMessage {
    let event: ScriptedEvent
    /// By the phone's clock, right or wrong.
    let occurredAt: Moment
    /// The event as the server should place it, by the correct clock.
    let placed: OrderedEvent
    let body: [UInt8]

    var id: String { placed.idempotencyKey }

    init(_ event: ScriptedEvent, driveStartsAt start: Moment, runID: String, settings: Settings) {
        self.event = event
        let id = "\(runID)-\(event.id)"
        let sessionID = event.sessionID.map { "\(runID)-\($0)" }
        var happenedAt = start.advanced(byMilliseconds: event.offsetMilliseconds)
        if event.isWholeSecond { happenedAt.millisecondsSinceEpoch -= happenedAt.millisecondsSinceEpoch % 1000 }
        occurredAt = happenedAt.advanced(byMilliseconds: event.clockErrorMilliseconds)
        placed = OrderedEvent(
            name: event.name, sessionID: sessionID, chargerID: event.chargerID, occurredAt: happenedAt,
            sequence: event.sequence, eventID: id, idempotencyKey: id, origin: .client,
            previousState: event.previousState, isWholeSecond: event.isWholeSecond,
            gracePeriodSeconds: settings.gracePeriodSeconds, hardTimeoutSeconds: settings.hardTimeoutSeconds)
        body = Self.body(event, id: id, sessionID: sessionID, occurredAt: occurredAt)
    }

    private static func body(_ event: ScriptedEvent, id: String, sessionID: String?, occurredAt: Moment) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 384)
        func member(_ name: String, _ text: String?) {
            guard let text else { return }
            writer.name(name)
            writer.string(text)
        }
        writer.beginObject()
        member("schema_version", "1.0")
        member("event_id", id)
        member("idempotency_key", id)
        member("session_id", sessionID)
        member("charger_id", event.chargerID)
        member("merchant_id", event.merchantID)
        member("event", event.spelling)
        let time = RFC3339.text(of: occurredAt)
        member("occurred_at", event.isWholeSecond ? time.replacing(".000Z", with: "Z") : time)
        member("timestamp", RFC3339.text(of: occurredAt))
        member("source", "dwell_simulate")
        if let previousState = event.previousState {
            writer.name("metadata")
            writer.value(.object([JSONMember("previous_state", .string(previousState.rawValue))]))
        }
        if let sequence = event.sequence {
            writer.name("sequence")
            writer.integer(sequence)
        }
        writer.endObject()
        return writer.bytes
    }
}

/// Requests of one signed-in driver.
struct DriverRequests {
    let token: String

    func event(_ message: EventMessage, sentAt: Moment) -> HTTPExchange.Request {
        post(message.event.route.path, message.body, sentAt: sentAt)
    }

    func batch(_ messages: [EventMessage], sentAt: Moment) -> HTTPExchange.Request {
        let elements = messages.map(\.body).joined(separator: [UInt8(ascii: ",")])
        return post("/native/events/batch", Array("{\"events\":[".utf8) + elements + Array("]}".utf8), sentAt: sentAt)
    }

    func register(_ sessionID: String) -> HTTPExchange.Request {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("session_id")
        writer.string(sessionID)
        writer.endObject()
        return post("/native/sessions", writer.bytes, sentAt: nil)
    }

    func get(_ path: String) -> HTTPExchange.Request {
        HTTPExchange.Request(method: "GET", path: path, fields: [authorization], body: [])
    }

    private func post(_ path: String, _ body: [UInt8], sentAt: Moment?) -> HTTPExchange.Request {
        var fields = [authorization, HTTPExchange.Field("Content-Type", "application/json")]
        if let sentAt { fields.append(HTTPExchange.Field("X-Sent-At", RFC3339.text(of: sentAt))) }
        return HTTPExchange.Request(method: "POST", path: path, fields: fields, body: body)
    }

    private var authorization: HTTPExchange.Field { HTTPExchange.Field("Authorization", "Bearer \(token)") }
}
