// The access log, with one line per completed request. Successful requests are logged at debug level, rejected requests
// at info level, and server errors as warnings. RefusalLineLimiter limits the number of lines about rejections.
//
// The line of a rejected request contains the request id that the client received. Path and query are never logged, so
// the log cannot leak them.

import HTTP1
import HTTPServer
import Identity
import Logging
import StructuredLogging
import Synchronization

final class RequestLog: RequestObserver {
    /// The message of all lines of the access log.
    static let message = "request"

    private let logger: Logger
    /// The logger's level, read only once. Reading it for every request would take longer than all other work of this
    /// class.
    private let leastLevel: Logger.Level
    private let limiter: Mutex<RefusalLineLimiter>
    private let driverName: @Sendable (String) -> String
    private let clock: @Sendable () -> Int64

    /// - Parameters:
    ///   - driverName: returns the name that stands for a driver's id in the log.
    ///   - clock: returns milliseconds since 1970.
    init(
        logger: Logger, limits: RefusalLineLimiter.Limits, driverName: @escaping @Sendable (String) -> String,
        clock: @escaping @Sendable () -> Int64 = millisecondsSince1970
    ) {
        self.logger = logger
        self.driverName = driverName
        self.clock = clock
        leastLevel = logger.logLevel
        limiter = Mutex(RefusalLineLimiter(limits: limits))
    }

    func answered(_ request: CompletedRequest) {
        let level = Self.level(of: request.status)
        // This check comes first, so that no metadata is created for a line that is not written.
        guard level >= leastLevel, request.status.code < 400 || admits(request) else { return }
        logger.log(level: level, "\(Self.message)", metadata: metadata(of: request))
    }

    /// Reports omitted lines once a second. Without this loop, only the next rejection would report them, and it may
    /// never come.
    func run() async {
        while (try? await Task.sleep(for: .seconds(1))) != nil { reportOmitted() }
    }

    func reportOmitted() {
        let second = clock() / 1000
        report(limiter.withLock { $0.end(before: second) })
    }

    /// Reports the omitted lines that are not reported yet, even if the current second is not over. Called after the
    /// server's last response, because nothing reports these lines later.
    func reportLastOmitted() {
        report(limiter.withLock { $0.end(before: .max) })
    }

    private func admits(_ request: CompletedRequest) -> Bool {
        let second = clock() / 1000
        let (client, kind) = client(of: request)
        let (isAdmitted, omitted) = limiter.withLock { limiter in
            let omitted = limiter.end(before: second)
            return (limiter.admits(client, kind, at: second), omitted)
        }
        report(omitted)
        return isAdmitted
    }

    private func report(_ omitted: RefusalLineLimiter.Omitted?) {
        guard let omitted else { return }
        var metadata: Logger.Metadata = ["count": .number(omitted.count)]
        if let client = omitted.busiestClient {
            metadata["busiest_client"] = "\(client)"
            metadata["busiest_count"] = .number(omitted.busiestCount)
        }
        logger.warning("rejected requests omitted from the log", metadata: metadata)
    }

    /// Returns the client for which RefusalLineLimiter counts the line, and the kind of rejection.
    ///
    /// The line of a 4xx with a valid token counts for the driver. If it counted for the address, other clients at this
    /// address could use up the limit, and the driver's lines would be omitted.
    ///
    /// All other lines count for the client's address, or for the /64 network of an IPv6 address.
    private func client(of request: CompletedRequest) -> (String, RefusalLineLimiter.Kind) {
        if request.status.code >= 500 { return (AddressGroup.name(of: request.remoteAddress), .failure) }
        if let principal = request.principal { return (driverName(principal), .signedIn) }
        return (AddressGroup.name(of: request.remoteAddress), .anonymous)
    }

    /// The methods whose names are logged. Any other method is logged as `other`, because its name is text that a
    /// client chose.
    private static let methods: Set<Method> = [.get, .head, .post, .put, .patch, .delete, .options]

    private func metadata(of request: CompletedRequest) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            "request_id": "\(request.requestID)", "route": "\(request.routeTemplate ?? "none")",
            "status": .number(request.status.code), "duration_us": .number(request.durationNanoseconds / 1000),
            "bytes_in": .number(request.bytesIn), "bytes_out": .number(request.bytesOut),
            "client": "\(request.remoteAddress)",
        ]
        if let method = request.method {
            metadata["method"] = "\(Self.methods.contains(method) ? method.rawValue : "other")"
        }
        if let principal = request.principal { metadata["driver"] = "\(driverName(principal))" }
        if let gap = request.addressGap { metadata["forwarding"] = "\(gap.rawValue)" }
        if let reason = request.refusalReason { metadata["reason"] = "\(reason)" }
        if let trace = request.traceParent.flatMap({ TraceParent($0) }) {
            metadata["trace_id"] = "\(trace.traceIDText)"
        }
        return metadata
    }

    static func level(of status: Status) -> Logger.Level {
        switch status.code {
        case 500...: .warning
        case 400...: .info
        default: .debug
        }
    }
}

/// Passes every request to several observers, in order.
final class RequestObservers: RequestObserver {
    private let observers: [any RequestObserver]

    init(_ observers: [any RequestObserver]) {
        self.observers = observers
    }

    func answered(_ request: CompletedRequest) {
        for observer in observers { observer.answered(request) }
    }
}
