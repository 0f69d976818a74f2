// One scripted event as it is sent. `DriverRequests` builds the requests.

import JourneyClient
import JourneyModel

/// A scripted event with its id, its times and its body.
struct EventMessage {
    let event: ScriptedEvent
    /// The time of the event on the phone's clock, which may be wrong.
    let occurredAt: Moment
    /// The event as the server should store it, at its time on a correct clock.
    let placed: OrderedEvent
    /// The body, which is the same for each attempt.
    private(set) var body: [UInt8] = []
    private let sessionID: String?

    var id: String { placed.idempotencyKey }

    init(_ event: ScriptedEvent, driveStartsAt start: Moment, runID: String, settings: Settings) {
        self.event = event
        let id = "\(runID)-\(event.id)"
        sessionID = event.sessionID.map { "\(runID)-\($0)" }
        var happenedAt = start.advanced(byMilliseconds: event.offsetMilliseconds)
        if event.isWholeSecond { happenedAt.millisecondsSinceEpoch -= happenedAt.millisecondsSinceEpoch % 1000 }
        occurredAt = happenedAt.advanced(byMilliseconds: event.clockErrorMilliseconds)
        placed = OrderedEvent(
            name: event.name, sessionID: sessionID, chargerID: event.chargerID, occurredAt: happenedAt,
            sequence: event.sequence, eventID: id, idempotencyKey: id, origin: .client,
            previousState: event.previousState, isWholeSecond: event.isWholeSecond,
            gracePeriodSeconds: settings.gracePeriodSeconds, hardTimeoutSeconds: settings.hardTimeoutSeconds)
        if event.timestamp == .ofTheEvent { body = Body(timestamp: occurredAt).bytes(of: self) }
    }

    /// Builds the body of an event whose `timestamp` is the time of an attempt. Must be called before each delivery.
    /// Later calls do nothing, because all attempts have the same body.
    mutating func stamp(at now: Moment) {
        guard body.isEmpty, case .ofAnAttempt(let seconds) = event.timestamp else { return }
        body = Body(timestamp: now.advanced(bySeconds: -Int(seconds))).bytes(of: self)
    }

    /// Returns the event with the body that the app would build after a restart.
    func rebuilt(at now: Moment) -> EventMessage {
        var message = self
        message.body = Body(timestamp: now, isRebuilt: true).bytes(of: self)
        return message
    }

    /// Returns the event with a body that the server must reject. The body has the same idempotency key, but a time of
    /// the event one second later.
    func changed() -> EventMessage {
        var message = self
        message.body = Body(timestamp: occurredAt, isLater: true).bytes(of: self)
        return message
    }

    private struct Body {
        var timestamp: Moment
        var isRebuilt = false
        var isLater = false

        func bytes(of message: EventMessage) -> [UInt8] {
            let event = message.event
            var writer = JSONWriter(reservingBytes: 384)
            func member(_ name: String, _ text: String?) {
                guard let text else { return }
                writer.name(name)
                writer.string(text)
            }
            writer.beginObject()
            member("schema_version", isRebuilt ? "1.1" : "1.0")
            member("event_id", message.id)
            member("idempotency_key", message.id)
            member("session_id", message.sessionID)
            member("charger_id", event.chargerID)
            member("merchant_id", event.merchantID)
            member("event", event.spelling)
            let time = RFC3339.text(of: message.occurredAt.advanced(byMilliseconds: isLater ? 1000 : 0))
            member("occurred_at", event.isWholeSecond ? time.replacing(".000Z", with: "Z") : time)
            member("timestamp", RFC3339.text(of: timestamp))
            member("source", "dwell_simulate")
            if let previousState = event.previousState {
                member("app_state", isRebuilt ? "foreground" : "background")
                let state = JSONMember("previous_state", .string(previousState.rawValue))
                let accuracy = JSONMember("accuracy_m", .number(isRebuilt ? "12.50" : "12.5"))
                writer.name("metadata")
                writer.value(.object(isRebuilt ? [accuracy, state] : [state, accuracy]))
            }
            if let sequence = event.sequence {
                writer.name("sequence")
                writer.integer(sequence)
            }
            writer.endObject()
            return writer.bytes
        }
    }
}

/// The requests of one signed-in driver.
struct DriverRequests {
    let token: String

    func event(_ message: EventMessage, sentAt: Moment) -> HTTPExchange.Request {
        post(message.event.route.path, message.body, sentAt: message.event.timestamp == .ofTheEvent ? sentAt : nil)
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
