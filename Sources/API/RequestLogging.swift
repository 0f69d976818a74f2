// What every log line about a request says of it: its id, and the trace that it is part of (W3C Trace Context).

import HTTP1
import HTTPServer
import Logging
import Telemetry

extension Request {
    /// Those two, and what the line itself has to say.
    func logged(_ metadata: Logger.Metadata = [:]) -> Logger.Metadata {
        var all = metadata
        all["request_id"] = "\(id)"
        if let trace = fields.first("traceparent").flatMap({ TraceParent($0) }) {
            all["trace_id"] = "\(trace.traceIDText)"
        }
        return all
    }
}
