package import HTTP1

/// What is known about a request once its response is made; for the access log and for metrics. It has no path and no
/// query: they can contain what must not be logged.
package struct CompletedRequest: Sendable {
    package var requestID: String
    /// nil when it was refused before its head was complete. Can be any token that a client sends: not a bounded set.
    package var method: Method?
    /// nil when no route was found, or the request was refused before routing.
    package var routeTemplate: String?
    package var status: Status
    /// From the complete head to the encoded response, a streamed one's end included.
    package var durationNanoseconds: UInt64
    /// Of the request, head and framing included.
    package var bytesIn: Int
    /// Of the response, head and framing included.
    package var bytesOut: Int
    /// The client's address, trusted proxies taken into account; "" for a Unix socket.
    package var remoteAddress: String
    /// Why `remoteAddress` is a trusted proxy's address, when it is.
    package var addressGap: ClientAddress.Gap?
    /// The owner of the request's credential, as the handler found it; nil without a valid one. May be a driver's id:
    /// must not be logged as it is.
    package var principal: String?
    /// Why the request was refused, in the handler's words for the log.
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

/// A class, so that passing it on copies nothing.
package protocol RequestObserver: AnyObject, Sendable {
    /// Called on a connection's loop, once per answered request, also when it is refused. Must not block.
    func answered(_ request: CompletedRequest)
}
