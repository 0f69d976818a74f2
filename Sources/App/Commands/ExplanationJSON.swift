// Formats recorded events as JSON. The members have the names used in GET /native/sessions/{session_id}; a member
// without a value is omitted. `occurred_at` is the corrected time, and `occurred_at_sent` is the text that was sent.

import Engine
import JourneyModel

struct ExplanationJSON {
    /// Whether the output contains the metadata of events, which may contain coordinates.
    var showsMetadata: Bool

    func text(of events: RecordedEvents, session: String?) -> String {
        var writer = JSONWriter(reservingBytes: 256 + 1024 * events.events.count)
        writer.beginObject()
        writer.member("driver_id", events.driver.rawValue)
        writer.member("session_id", session)
        writer.name("is_cut")
        writer.bool(events.isCut)
        writer.name("events")
        writer.beginArray()
        for event in events.events { write(event, to: &writer) }
        writer.endArray()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private func write(_ event: RecordedEvent, to writer: inout JSONWriter) {
        writer.beginObject()
        identity(event, &writer)
        writer.member("occurred_at_sent", event.times.occurredAtText)
        writer.member("occurred_at", event.times.corrected)
        writer.member("correction_ms", event.correctionMilliseconds)
        writer.member("sent_at", event.times.sentAt)
        writer.member("timestamp", event.times.timestamp)
        writer.member("received_at", event.times.receivedAt)
        writer.member("skew_ms", event.times.sentAt == nil ? nil : event.times.skewMilliseconds)
        writer.member("clock_rule", event.times.rule?.rawValue)
        verdict(event, &writer)
        writer.name("settings")
        writer.beginObject()
        writer.member("version", event.settings.version)
        writer.member("stored_version", event.settings.storedVersion)
        writer.member("gracePeriodSeconds", Int64(event.settings.gracePeriodSeconds))
        writer.member("hardTimeoutSeconds", Int64(event.settings.hardTimeoutSeconds))
        writer.endObject()
        if showsMetadata, let metadata = event.metadata {
            writer.name("metadata")
            writer.raw(metadata)
        }
        writer.endObject()
    }

    private func identity(_ event: RecordedEvent, _ writer: inout JSONWriter) {
        writer.member("event_id", event.eventID)
        writer.member("idempotency_key", event.idempotencyKey)
        writer.member("event", event.name.canonical)
        writer.member("spelling", event.spelling)
        writer.member("session_id", event.sessionID)
        writer.members(of: event.sent)
    }

    private func verdict(_ event: RecordedEvent, _ writer: inout JSONWriter) {
        writer.member("transition", event.verdict.transition.rawValue)
        writer.member("reason", event.verdict.reason?.rawValue)
        writer.implied(event.verdict)
        writer.member("previous_state", event.previousState?.rawValue)
        writer.member("why", event.why)
        writer.member("state_before", event.before.state.rawValue)
        writer.member("state", event.after.state.rawValue)
        writer.member("ended_by", event.after.endedBy?.rawValue)
        writer.member("closed_session_id", event.closedSession?.id)
        writer.member("closed_by", event.closedSession?.ending.rawValue)
        writer.member("grace_deadline", event.after.graceDeadline)
        writer.member("hard_deadline", event.after.hardDeadline)
    }
}

extension JSONWriter {
    fileprivate mutating func member(_ name: String, _ text: String?) {
        guard let text else { return }
        self.name(name)
        string(text)
    }

    fileprivate mutating func member(_ name: String, _ moment: Moment?) {
        member(name, moment.map(RFC3339.text(of:)))
    }

    fileprivate mutating func member(_ name: String, _ number: Int64?) {
        guard let number else { return }
        self.name(name)
        integer(number)
    }
}
