// Captures analytics by PostHog's protocol: POST HOST/batch/ with a key and a list of events, compressed with gzip. A
// batch may be sent twice, because PostHog drops repeated events. Repeated events have the same uuid, timestamp, name
// and distinct_id.

import Crypto
package import Engine
package import Foundation
import JourneyModel
package import Secrets

package struct PostHogCapture: AnalyticsCapture {
    /// Timeout of one call in milliseconds. It suffices for two hundred events at a slow service.
    static let timeoutMilliseconds = 20_000
    /// The maximum bytes of a response. PostHog responds with one or two words. The error page of a proxy may be
    /// longer.
    static let answerBytesMax = 64 * 1024

    private let http: OutgoingHTTP
    private let url: URL
    private let key: Secret<String>

    /// Creates the client. `host` is the URL in `POSTHOG_HOST`. If that URL has a path, the service's paths are
    /// appended to it.
    package init(http: OutgoingHTTP, host: URL, key: Secret<String>) {
        self.http = http
        url = host.appending(path: "batch/", directoryHint: .isDirectory)
        self.key = key
    }

    package func capture(_ events: [FeedEvent]) async -> CaptureOutcome {
        let body = Self.body(events, key: key)
        var fields = [(name: "Content-Type", value: "application/json")]
        let compressed = GzipEncoding.deflate(body)
        if compressed != nil { fields.append((name: "Content-Encoding", value: "gzip")) }
        let request = OutgoingRequest(.post, url, fields: fields, body: compressed ?? body)
        do throws(OutgoingFailure) {
            let answer = try await http.send(
                request, timeoutMilliseconds: Self.timeoutMilliseconds, answerBytesMax: Self.answerBytesMax)
            return Self.outcome(of: answer)
        } catch {
            return .unavailable(reason: error.rawValue, retryAfterSeconds: nil)
        }
    }

    /// After 400, 413 and 422, the service would reject the same events again. After 401 and 403, the events wait until
    /// the operator has corrected the key.
    static func outcome(of answer: OutgoingResponse) -> CaptureOutcome {
        switch answer.status {
        case 200..<300: .taken
        case 400, 413, 422: .refused(reason: "status \(answer.status)")
        default: .unavailable(reason: "status \(answer.status)", retryAfterSeconds: answer.retryAfterSeconds)
        }
    }

    // MARK: The body

    static func body(_ events: [FeedEvent], key: Secret<String>) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 128 + 640 * events.count)
        writer.beginObject()
        writer.member("api_key", key.reveal())
        writer.name("batch")
        writer.beginArray()
        for event in events { writer.event(event) }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    /// Returns the event's UUID, which is the same at every attempt. An event_id that is a UUID is used in lower case.
    /// For another event_id, the UUID has version 8 (RFC 9562, section 5.8) and comes from a digest of driver and
    /// event_id.
    static func uuid(of event: FeedEvent) -> String {
        if let uuid = UUID(uuidString: event.eventID) { return uuid.uuidString.lowercased() }
        var bytes = Array(
            SHA256.hash(
                data: Array("\(event.driver.rawValue.utf8.count):\(event.driver.rawValue)\(event.eventID)".utf8)
            )
            .prefix(16))
        bytes[6] = bytes[6] & 0x0F | 0x80
        bytes[8] = bytes[8] & 0x3F | 0x80
        var text = ""
        for (index, digit) in bytes.hexadecimal.enumerated() {
            if [8, 12, 16, 20].contains(index) { text.append("-") }
            text.append(digit)
        }
        return text
    }
}

extension JSONWriter {
    fileprivate mutating func member(_ name: String, _ text: String?) {
        guard let text else { return }
        self.name(name)
        string(text)
    }

    fileprivate mutating func event(_ event: FeedEvent) {
        beginObject()
        member("event", event.name.analyticsName(hasSession: event.sessionID != nil))
        member("distinct_id", event.driver.rawValue)
        member("uuid", PostHogCapture.uuid(of: event))
        member("timestamp", RFC3339.text(of: event.occurredAt))
        name("properties")
        beginObject()
        // Some versions of PostHog read this property. Other versions read the member `distinct_id` of the event.
        member("distinct_id", event.driver.rawValue)
        // Without this property, PostHog would locate the event by this server's IP address, which is unrelated to the
        // driver's location.
        name("$geoip_disable")
        bool(true)
        member("$lib", "dwell")
        member("event_id", event.eventID)
        member("session_id", event.sessionID)
        members(of: event.sent)
        member("received_at", RFC3339.text(of: event.receivedAt))
        member("settings_version", event.settingsVersion)
        member("state", event.state.rawValue)
        member("transition", event.verdict.transition.rawValue)
        member("reason", event.verdict.reason?.rawValue)
        member("ended_by", event.endedBy?.rawValue)
        // Implied steps are not sent as events, because no client reported them. They are a property of the event that
        // proves them.
        implied(event.verdict)
        if let metadata = event.metadata {
            name("metadata")
            raw(metadata)
        }
        endObject()
        endObject()
    }
}
