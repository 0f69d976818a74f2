// The routes of /ops, the operator page. The page itself is a public file. All data on the page requires OPS_TOKEN or a
// token of the role `ops`.

package import Engine
import HTTP1
import HTTPServer
import JourneyModel
import Logging
package import Purchases
package import Secrets
import Synchronization

/// The dependencies of the operator's routes. The closures are called for each response of `/ops/picture` and for each
/// message of `/ops/stream`. `settings` is also called for `/ops/config`.
package struct OperatorParts: Sendable {
    /// The value of `OPS_TOKEN`. If it is nil, only tokens of the role `ops` are accepted.
    package var token: Secret<String>?
    package var reader: any OperatorReader
    package var lists: any OperatorListReader
    package var drivers: DriverCounts
    package var history: OperationHistory
    package var figures: RequestStatistics
    package var refused = RefusedRequests()
    /// The place where requests are counted for the rate limits: `process`, `redis`, `redis-partly` (some nodes of a
    /// Redis Cluster are unreachable), or `redis-unreachable`.
    package var admission: @Sendable () -> String
    /// The number of free bytes on the file system of the database. Nil if the number cannot be read, or if the
    /// database is PostgreSQL.
    package var freeBytes: @Sendable () -> Int64?
    /// The status of each configured delivery queue.
    package var outbox: @Sendable () async -> [OutboxStatus]
    /// The totals of purchases; nil if the server accepts no purchases, or has not counted the purchases yet.
    package var purchases: @Sendable () -> PurchaseTotals?
    package var version: String
    /// The settings of the server; nil in tests without settings.
    package var settings: @Sendable () -> ServerSettings?
    /// The servers that use this database, including this server.
    package var instances: @Sendable () async -> [InstanceState]
    /// The limit of wrong tokens on the operator's routes.
    package var guesses: OperatorGuesses

    package init(
        token: Secret<String>?, guesses: OperatorGuesses, reader: any OperatorReader, lists: any OperatorListReader,
        drivers: DriverCounts, history: OperationHistory, figures: RequestStatistics,
        admission: @escaping @Sendable () -> String, freeBytes: @escaping @Sendable () -> Int64?,
        outbox: @escaping @Sendable () async -> [OutboxStatus],
        purchases: @escaping @Sendable () -> PurchaseTotals? = { nil }, version: String,
        settings: @escaping @Sendable () -> ServerSettings? = { nil },
        instances: @escaping @Sendable () async -> [InstanceState] = { [] }
    ) {
        self.token = token
        self.guesses = guesses
        self.reader = reader
        self.lists = lists
        self.drivers = drivers
        self.history = history
        self.figures = figures
        self.admission = admission
        self.freeBytes = freeBytes
        self.outbox = outbox
        self.purchases = purchases
        self.version = version
        self.settings = settings
        self.instances = instances
    }
}

struct OperatorHandlers: Sendable {
    static let pauseMilliseconds = 2000
    /// The maximum number of open streams. It is small because each stream reads all data of the operator page every
    /// two seconds, and because there are only a few operators.
    static let streamsMax = 8
    static let eventsMax = 500
    static let versionsMax = 50

    let operation: OperatorParts
    let picture: DashboardSnapshot
    let settings: CurrentSettings
    let clock: @Sendable () -> Moment
    let logger: Logger
    private let access: Access
    private let isEnding: @Sendable () -> Bool
    private let streams = OpenStreams()

    /// - Parameter isEnding: returns whether streams must end.
    init(
        _ operation: OperatorParts, settings: CurrentSettings, access: Access,
        isEnding: @escaping @Sendable () -> Bool, clock: @escaping @Sendable () -> Moment, logger: Logger
    ) {
        self.access = access
        self.isEnding = isEnding
        self.operation = operation
        picture = DashboardSnapshot(reader: operation.reader, drivers: operation.drivers)
        self.settings = settings
        self.clock = clock
        self.logger = logger
    }

    /// The handler of `GET /ops/picture`.
    var one: OpenHandler {
        { request throws(ProblemResponse) in .noStore(try await encodedPicture(request)) }
    }

    /// The handler of `GET /ops/stream`: sends the data of `/ops/picture` every two seconds. The stream ends if the
    /// client disconnects, its token becomes invalid, the data cannot be read, or the server shuts down.
    var stream: OpenHandler {
        { request throws(ProblemResponse) in
            let fields = Fields([
                ("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"),
            ])
            if request.method == .head { return Response(status: .ok, fields: fields, body: .stream { _ in }) }
            let first = try await encodedPicture(request)
            guard let slot = streams.take() else {
                throw ProblemResponse(
                    .serviceUnavailable, "There are \(Self.streamsMax) operator streams open already. Try again later.",
                    retryAfterSeconds: StreamHandler.retryAfterSeconds)
            }
            return Response(
                status: .ok, fields: fields,
                body: .stream { writer in
                    defer { slot.release() }
                    try await writer.write(message(first))
                    while true {
                        try await Task.sleep(for: .milliseconds(Self.pauseMilliseconds))
                        guard !isEnding(), await access.isStillOperator(request, at: clock()) else { return }
                        try await writer.write(message(try await encodedPicture(request)))
                    }
                })
        }
    }

    /// The handler of `GET /ops/settings`.
    var versions: OpenHandler {
        { request throws(ProblemResponse) in
            let (current, rules) = settings.readWithRules()
            let (versions, history) = try await logger.reading(for: request) { () async throws(StoreFailure) in
                let versions = try await operation.reader.settingsVersions(limit: Self.versionsMax)
                return (versions, try await operation.reader.settingsHistory(limit: Self.versionsMax))
            }
            return .noStore(OperatorResponses.settings(versions, history, inForce: current, rules: rules?.recorded))
        }
    }

    /// The handler of `GET /ops/config`.
    var inForce: OpenHandler {
        { request throws(ProblemResponse) in
            guard let current = operation.settings() else { throw ProblemResponse(.notFound, "No settings available.") }
            return .noStore(current.json(version: operation.version, settingsVersion: settings.read().version))
        }
    }

    /// The handler of `GET /ops/sessions/{session_id}`.
    var timeline: OpenHandler {
        { request throws(ProblemResponse) in
            let found = try await logger.reading(for: request) { () async throws(StoreFailure) in
                try await operation.reader.operatorTimeline(
                    of: request.parameters["session_id"] ?? "", limit: Self.eventsMax)
            }
            guard let found else { throw .sessionNotFound }
            return .noStore(JourneyResponses.timeline(found.timeline, of: found.driver, at: request.receivedAt))
        }
    }

    /// The number of open operator streams.
    var streamCount: Int { streams.openCount }

    // MARK: Answers

    private func encodedPicture(_ request: Request) async throws(ProblemResponse) -> [UInt8] {
        let now = clock()
        let current = try await logger.reading(for: request) { () async throws(StoreFailure) in
            try await picture.current(at: now)
        }
        return OperatorResponses.picture(
            current, requests: operation.figures.sum(), settings: settings.read(), admission: operation.admission(),
            freeBytes: operation.freeBytes(), outbox: await operation.outbox(),
            purchases: operation.purchases(), version: operation.version, server: operation.settings(),
            instances: await operation.instances())
    }

    private func message(_ json: [UInt8]) -> [UInt8] {
        Array("data: ".utf8) + json + Array("\n\n".utf8)
    }
}

/// Counts the open operator streams and limits their number.
private final class OpenStreams: Sendable {
    private let count = Mutex(0)

    var openCount: Int { count.withLock { $0 } }

    func take() -> Place? {
        let isFree = count.withLock { count in
            guard count < OperatorHandlers.streamsMax else { return false }
            count += 1
            return true
        }
        return isFree ? Place(streams: self) : nil
    }

    /// One open stream. It counts as open until `release` is called for the first time. If the response with the stream
    /// is never sent, `deinit` calls `release`.
    final class Place: Sendable {
        private let streams: OpenStreams
        private let isTaken = Mutex(true)

        init(streams: OpenStreams) { self.streams = streams }

        func release() {
            let wasTaken = isTaken.withLock { isTaken in
                defer { isTaken = false }
                return isTaken
            }
            if wasTaken { streams.count.withLock { $0 -= 1 } }
        }

        deinit { release() }
    }
}
