// One line per answered request. Those that went well are for whoever debugs; a refused one can be found by the
// request id that its client was told, and one that the server is to blame for is a warning. It gets no path and no
// query, so there is none to leak.

import HTTP1
import HTTPServer
import Logging

struct RequestLog: RequestObserver {
    let logger: Logger

    func answered(_ request: AnsweredRequest) {
        logger.log(
            level: Self.level(of: request.status), "request",
            metadata: [
                "request_id": "\(request.requestID)", "route": "\(request.routeTemplate ?? "none")",
                "status": "\(request.status.code)", "duration_us": "\(request.durationNanoseconds / 1000)",
                "bytes_in": "\(request.bytesIn)", "bytes_out": "\(request.bytesOut)",
                "client": "\(request.remoteAddress)",
            ])
    }

    static func level(of status: Status) -> Logger.Level {
        switch status.code {
        case 500...: .warning
        case 400...: .info
        default: .debug
        }
    }
}
