// The responses of the routes that read journeys, as JSON (docs/contract.md, section 3, "Reading"). Times are RFC 3339
// in UTC with milliseconds. A member without a value is omitted.

import Engine
import JourneyModel

enum JourneyResponses {
    /// Encodes the response of `GET /native/session`. If a deadline of the journey has passed by `now`, the response
    /// has the state after that deadline.
    static func session(_ journey: Journey, settingsVersion: String, at now: Moment) -> [UInt8] {
        let journey = journey.advanced(to: now)
        var writer = JSONWriter(reservingBytes: 384)
        writer.beginObject()
        writer.member("state", journey.state.rawValue)
        writer.member("ended_by", journey.endedBy?.rawValue)
        writer.member("session_id", journey.sessionID)
        writer.member("target_charger_id", journey.targetChargerID)
        writer.member("next_target_charger_id", journey.nextTargetChargerID)
        writer.deadlines(journey, at: now)
        writer.member("settings_version", settingsVersion)
        writer.member("as_of", now)
        writer.endObject()
        return writer.bytes
    }

    /// Encodes the response of `GET /native/sessions`.
    static func sessions(_ page: SessionPage, at now: Moment) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 64 + 160 * page.sessions.count)
        writer.beginObject()
        writer.name("sessions")
        writer.beginArray()
        for session in page.sessions {
            writer.beginObject()
            writer.summary(session, at: now)
            writer.endObject()
        }
        writer.endArray()
        if page.hasMore, let last = page.sessions.last {
            writer.member("next_cursor", PageCursor.session(last.sessionID).text)
        }
        writer.endObject()
        return writer.bytes
    }

    /// Encodes the response of `GET /native/sessions/{session_id}`.
    ///
    /// - Parameter driver: the driver of the session, in responses to operators. If nil, the member is omitted.
    static func timeline(_ timeline: SessionTimeline, of driver: DriverID? = nil, at now: Moment) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 256 + 512 * timeline.events.count)
        writer.beginObject()
        writer.member("driver_id", driver?.rawValue)
        writer.summary(timeline.session, at: now)
        writer.name("events")
        writer.beginArray()
        for event in timeline.events { writer.event(event) }
        writer.endArray()
        if timeline.hasMore, let last = timeline.events.last {
            writer.member("next_cursor", PageCursor.event(last.id).text)
        }
        writer.endObject()
        return writer.bytes
    }

    /// Encodes the data of one message of `GET /native/session/stream`, on one line.
    static func change(_ change: JourneyChange, isSnapshot: Bool, at now: Moment) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 384)
        writer.beginObject()
        writer.member("state", change.journey.state.rawValue)
        writer.member("ended_by", change.journey.endedBy?.rawValue)
        writer.member("session_id", change.journey.sessionID)
        writer.deadlines(change.journey, at: now)
        if let cause = change.cause {
            writer.name("caused_by")
            writer.beginObject()
            writer.member("event_id", cause.eventID)
            writer.member("event", cause.name.canonical)
            writer.member("occurred_at", cause.occurredAt)
            writer.member("source", cause.source)
            writer.endObject()
        }
        if isSnapshot {
            writer.name("snapshot")
            writer.bool(true)
        }
        writer.endObject()
        return writer.bytes
    }
}

extension JSONWriter {
    /// Writes `"deadlines":{"grace":{"at":"...","seconds_left":900},"hard":{...}}`. Omits a deadline that is not
    /// running.
    fileprivate mutating func deadlines(_ journey: Journey, at now: Moment) {
        name("deadlines")
        beginObject()
        for (name, deadline) in [("grace", journey.graceDeadline), ("hard", journey.hardDeadline)] {
            guard let deadline else { continue }
            self.name(name)
            beginObject()
            member("at", deadline)
            self.name("seconds_left")
            let left = max(deadline.milliseconds(since: now), 0)
            // The seconds are rounded up, so that 0 appears only after the deadline has passed.
            integer(left / 1000 + (left % 1000 == 0 ? 0 : 1))
            endObject()
        }
        endObject()
    }

    mutating func summary(_ session: SessionSummary, at now: Moment) {
        member("session_id", session.sessionID)
        let journey = session.journey?.advanced(to: now)
        member("state", journey?.state.rawValue)
        member("ended_by", journey?.endedBy?.rawValue)
        member("charger_id", session.chargerID)
        member("merchant_id", session.merchantID)
        member("opened_at", session.openedAt)
        member("registered_at", session.registeredAt)
    }

    fileprivate mutating func event(_ event: SessionEvent) {
        beginObject()
        member("event_id", event.eventID)
        member("idempotency_key", event.idempotencyKey)
        member("event", event.name.canonical)
        members(of: event.sent)
        member("occurred_at", event.occurredAt)
        member("occurred_at_sent", event.occurredAtText)
        member("received_at", event.receivedAt)
        member("settings_version", event.settingsVersion)
        member("transition", event.verdict.transition.rawValue)
        member("reason", event.verdict.reason?.rawValue)
        implied(event.verdict)
        member("state", event.state.rawValue)
        member("ended_by", event.endedBy?.rawValue)
        endObject()
    }
}
