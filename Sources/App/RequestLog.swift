// One line per answered request, for whoever looks for a single one; and a louder one for answers that the server
// is to blame for. It gets no path and no query, so there is none to leak.

import HTTP1
import HTTPServer
import Logging

struct RequestLog: RequestObserver {
    let logger: Logger

    func answered(_ request: AnsweredRequest) {
        logger.log(
            level: request.status.code >= 500 ? .warning : .debug, "request",
            metadata: [
                "request_id": "\(request.requestID)", "route": "\(request.routeTemplate ?? "none")",
                "status": "\(request.status.code)", "duration_us": "\(request.durationNanoseconds / 1000)",
                "bytes_in": "\(request.bytesIn)", "bytes_out": "\(request.bytesOut)",
                "client": "\(request.remoteAddress)",
            ])
    }
}
