// One line per answered request. Those that went well are for whoever debugs; a refused one can be found by the
// request id that its client was told, and one that the server is to blame for is a warning. It gets no path and no
// query, so there is none to leak.

import HTTP1
import HTTPServer
import Logging
import Telemetry

final class RequestLog: RequestObserver {
    private let logger: Logger
    /// The logger's. Read once: asking it for every request costs more than all else here.
    private let leastLevel: Logger.Level

    init(logger: Logger) {
        self.logger = logger
        leastLevel = logger.logLevel
    }

    func answered(_ request: AnsweredRequest) {
        let level = Self.level(of: request.status)
        // Nothing is put together for a line that is not written.
        guard level >= leastLevel else { return }
        logger.log(level: level, "request", metadata: Self.metadata(of: request))
    }

    private static func metadata(of request: AnsweredRequest) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            "request_id": "\(request.requestID)", "route": "\(request.routeTemplate ?? "none")",
            "status": "\(request.status.code)", "duration_us": "\(request.durationNanoseconds / 1000)",
            "bytes_in": "\(request.bytesIn)", "bytes_out": "\(request.bytesOut)",
            "client": "\(request.remoteAddress)",
        ]
        if let gap = request.addressGap { metadata["forwarding"] = "\(gap.rawValue)" }
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

/// Each is told of every request, in that order.
final class RequestObservers: RequestObserver {
    private let observers: [any RequestObserver]

    init(_ observers: [any RequestObserver]) {
        self.observers = observers
    }

    func answered(_ request: AnsweredRequest) {
        for observer in observers { observer.answered(request) }
    }
}
