package import HTTP1

/// What is known about a request once its answer is made; for the access log and for metrics. It holds no path and
/// no query: those can carry what must not be logged.
package struct CompletedRequest: Sendable {
    package var requestID: String
    /// nil when it was refused before its head was complete. Any token that a client sends: not a bounded set.
    package var method: Method?
    /// nil when no route was found, or the request was refused before it was looked for.
    package var routeTemplate: String?
    package var status: Status
    /// From the complete head to the made answer, a streamed one's end included.
    package var durationNanoseconds: UInt64
    /// Of the request, head and framing included.
    package var bytesIn: Int
    /// Of the answer, head and framing included.
    package var bytesOut: Int
    /// Proxies taken into account; "" for a Unix socket.
    package var remoteAddress: String
    /// Why `remoteAddress` is a trusted proxy's, when it is.
    package var addressGap: ClientAddress.Gap?
    /// Who the request's credential belongs to, as the handler found it; nil when nobody was recognised. A driver's id:
    /// not for a log as it is.
    package var principal: String?
    /// Why it was refused, as the handler said it for the log.
    package var refusalReason: String?
    /// The traceparent field as it came, unchecked.
    package var traceParent: String?

    package init(
        requestID: String, method: Method?, routeTemplate: String?, status: Status, durationNanoseconds: UInt64,
        bytesIn: Int, bytesOut: Int, remoteAddress: String, addressGap: ClientAddress.Gap? = nil,
        principal: String? = nil, refusalReason: String? = nil, traceParent: String? = nil
    ) {
        self.requestID = requestID
        self.method = method
        self.routeTemplate = routeTemplate
        self.status = status
        self.durationNanoseconds = durationNanoseconds
        self.bytesIn = bytesIn
        self.bytesOut = bytesOut
        self.remoteAddress = remoteAddress
        self.addressGap = addressGap
        self.principal = principal
        self.refusalReason = refusalReason
        self.traceParent = traceParent
    }
}

/// An object, so that telling it copies nothing.
package protocol RequestObserver: AnyObject, Sendable {
    /// Called on a connection's loop, once per answered request, refused ones too. Must not block.
    func answered(_ request: CompletedRequest)
}
