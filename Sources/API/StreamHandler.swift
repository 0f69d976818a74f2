// GET /native/session/stream: sends a driver's state changes as server-sent events (WHATWG HTML, section 9.2), one
// message per change. When a client reconnects, its Last-Event-ID is the id of the last message that it received.
//
// A stream sends only committed rows of the database. Between two reads of the database, it keeps only the values that
// it sent last.
//
// With `?entitlements=true`, the stream also sends the driver's entitlements, at the start and after each change. The
// messages with entitlements have the event type `entitlements` and no id.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Logging
import Purchases
import RateLimiting
import Synchronization

struct StreamHandler: Sendable {
    /// The seconds between two heartbeats. Proxies close a connection that is silent for 60 s, so heartbeats must be
    /// more frequent. Heartbeats also detect dead connections.
    static let heartbeatSeconds = 15
    /// The milliseconds that an EventSource waits before it reconnects.
    static let reconnectMilliseconds = 3000
    /// The seconds in `Retry-After` if the process has the maximum number of streams or is shutting down.
    static let retryAfterSeconds = 5

    let journeys: any JourneyReader
    let streams: JourneyStreams
    let tokens: any TokenVerifier
    let limit: DriverLimit
    let clock: @Sendable () -> Moment
    let logger: Logger
    /// The purchase service; nil if the server accepts no purchases.
    var purchases: (any PurchaseService)?
    var heartbeat = Duration.seconds(heartbeatSeconds)

    var get: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let fields = Fields([
                ("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"),
                // Without this field, nginx would buffer messages instead of passing them on.
                ("X-Accel-Buffering", "no"),
            ])
            // The response to HEAD has no body, so no stream is opened for it.
            if request.method == .head { return Response(status: .ok, fields: fields, body: .stream { _ in }) }
            let stream = try open(caller.driver)
            // Read the first changes before the status is sent, so that a failure of the store can still result in 503.
            let first = try await logger.reading(for: request) { () async throws(StoreFailure) in
                try await journeys.changes(of: caller.driver, after: lastEventID(request))
            }
            return Response(
                status: .ok, fields: fields,
                body: .stream { writer in
                    try await run(stream, first, after: lastEventID(request), of: caller.driver, request, writer)
                })
        }
    }

    private func open(_ driver: DriverID) throws(ProblemResponse) -> JourneyStream {
        do throws(JourneyStreams.Refusal) {
            return try streams.open(driver, at: clock())
        } catch {
            throw ProblemResponse(error)
        }
    }

    /// Returns the id of the last message that the client received. If the client sent no valid id, returns nil, and
    /// the stream begins with the newest state.
    private func lastEventID(_ request: Request) -> Int64? {
        let values = request.fields.values("Last-Event-ID")
        guard values.count == 1, let id = Int64(values[0]), id >= 0 else { return nil }
        return id
    }

    // MARK: The stream

    /// Runs until the client disconnects, its token becomes invalid, the server ends the stream, or the store fails. In
    /// each case the client may reconnect with the id of its last message.
    private func run(
        _ stream: JourneyStream, _ first: JourneyChanges, after id: Int64?, of driver: DriverID, _ request: Request,
        _ writer: any ResponseBodyWriter
    ) async throws {
        let due = HeartbeatDue()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [heartbeat] in
                while true {
                    try await Task.sleep(for: heartbeat)
                    due.set()
                    stream.wake()
                }
            }
            defer { group.cancelAll() }
            // Request a heartbeat at once when the client closes its sending direction. The client may still read, or
            // may be gone, and only a write shows which is true.
            writer.whenClientEndsSending {
                due.set()
                stream.wake()
            }
            try await writer.write(Array("retry: \(Self.reconnectMilliseconds)\n\n".utf8))
            var last = try await write(first, after: LastMessage(id: id), to: writer)
            var entitlements = try await writeEntitlements(of: driver, after: nil, request, to: writer)
            for await _ in stream.wakes {
                if due.take() {
                    guard await tokens.callerStill(of: request, at: clock()) != nil else { return }
                    try await writer.write(Array(":\n\n".utf8))
                }
                last = try await write(journeys.changes(of: driver, after: last.id), after: last, to: writer)
                entitlements = try await writeEntitlements(of: driver, after: entitlements, request, to: writer)
            }
        }
    }

    /// The last message that was written to a stream.
    private struct LastMessage {
        var id: Int64?
        /// The journey in the last message; nil until this connection has sent a message.
        var journey: Journey?
    }

    private func write(
        _ changes: JourneyChanges, after last: LastMessage, to writer: any ResponseBodyWriter
    ) async throws -> LastMessage {
        switch changes {
        case .all(let changes):
            for change in changes { try await writer.write(message(change, isSnapshot: false)) }
            return changes.last.map { LastMessage(id: $0.id, journey: $0.journey) } ?? last
        case .newest(let change):
            // Write the newest state only once. After a refold, `changes` returns it at every wake until the driver's
            // next change.
            if change.id == last.id && change.journey == last.journey { return last }
            try await writer.write(message(change, isSnapshot: true))
            return LastMessage(id: change.id, journey: change.journey)
        }
    }

    /// Writes the entitlements if their JSON differs from `last`, the JSON that this stream wrote before.
    ///
    /// If this process receives a purchase or a notification, it wakes the stream at once. The stream finds all other
    /// changes at the next heartbeat: ends of subscription periods, and changes by other processes.
    ///
    /// Each wake of the stream reads the entitlements again. Each read after the first is charged like a GET
    /// /native/entitlements. If the driver has used up the limit `reads`, this function reads nothing and returns
    /// `last`.
    private func writeEntitlements(
        of driver: DriverID, after last: [UInt8]?, _ request: Request, to writer: any ResponseBodyWriter
    ) async throws -> [UInt8]? {
        guard let purchases, request.query?.split(separator: "&").contains("entitlements=true") == true else {
            return nil
        }
        if last != nil {
            guard !limit.isExhausted(by: driver, .reads) else { return last }
            limit.charge(driver, .reads, times: 1)
        }
        let read = try await purchases.entitlements(of: driver, at: clock())
        limit.chargeRead(ofFacts: read.factCount, by: driver)
        let json = EntitlementResponses.json(read.entitlements)
        guard json != last else { return last }
        try await writer.write(Array("event: entitlements\ndata: ".utf8) + json + Array("\n\n".utf8))
        return json
    }

    private func message(_ change: JourneyChange, isSnapshot: Bool) -> [UInt8] {
        var bytes = Array("id: \(change.id)\ndata: ".utf8)
        bytes += JourneyResponses.change(change, isSnapshot: isSnapshot, at: clock())
        bytes += Array("\n\n".utf8)
        return bytes
    }
}

/// Whether the stream must write a heartbeat at its next wake. `take` returns this flag and clears it.
private final class HeartbeatDue: Sendable {
    private let isDue = Mutex(false)

    func set() { isDue.withLock { $0 = true } }

    func take() -> Bool {
        isDue.withLock { isDue in
            defer { isDue = false }
            return isDue
        }
    }
}
