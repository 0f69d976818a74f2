// Makes one request from queued events (contract, section 3; docs/client.md, "A request").

import JourneyModel

enum EventRequest {
    static let path = "/native/events"
    static let batchPath = "/native/events/batch"

    /// Returns a request with one event or a batch. Even a batch of 30 events of the largest allowed size is far
    /// smaller than the server's limit of 1 MiB.
    static func make(_ events: [QueuedEvent], sentAt: Moment, accessToken: String) -> HTTPExchange.Request {
        HTTPExchange.Request(
            method: "POST", path: events.count == 1 ? path : batchPath,
            fields: [
                HTTPExchange.Field("Authorization", "Bearer \(accessToken)"),
                HTTPExchange.Field("Content-Type", "application/json"),
                HTTPExchange.Field("X-Sent-At", RFC3339.text(of: sentAt)),
            ],
            body: events.count == 1 ? events[0].body : batchBody(events))
    }

    private static func batchBody(_ events: [QueuedEvent]) -> [UInt8] {
        let elements = events.map(\.body).joined(separator: [UInt8(ascii: ",")])
        return Array("{\"events\":[".utf8) + elements + Array("]}".utf8)
    }
}
