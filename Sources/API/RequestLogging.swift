// The metadata of every log line about a request: the request's id and its trace (W3C Trace Context).

import HTTP1
import HTTPServer
import Logging
import StructuredLogging

extension Request {
    /// Returns the request's id and trace, together with `metadata`.
    func logged(_ metadata: Logger.Metadata = [:]) -> Logger.Metadata {
        var all = metadata
        all["request_id"] = "\(id)"
        if let trace = fields.first("traceparent").flatMap({ TraceParent($0) }) {
            all["trace_id"] = "\(trace.traceIDText)"
        }
        return all
    }
}
