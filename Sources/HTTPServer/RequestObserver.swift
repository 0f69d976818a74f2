package import HTTP1

/// A description of an answered request, for the access log and for metrics. It contains no path and no query, because
/// a path or a query can contain data that must not be logged.
package struct CompletedRequest: Sendable {
    package var requestID: String
    /// The method; nil if the request was refused before its head was complete. A client can invent methods, so the
    /// number of different methods is not limited.
    package var method: Method?
    /// The route's template; nil if no route was found, or the request was refused before routing.
    package var routeTemplate: String?
    package var status: Status
    /// The time from the end of the request's head until the response is encoded, or until the end of a streamed
    /// response.
    package var durationNanoseconds: UInt64
    /// The bytes of the request, including head and framing.
    package var bytesIn: Int
    /// The bytes of the response, including head and framing.
    package var bytesOut: Int
    /// The client's address; "" for a Unix socket. If trusted proxies forwarded the request, this is the address that
    /// the proxies recorded for the client.
    package var remoteAddress: String
    /// The reason why `remoteAddress` is the address of a trusted proxy; nil if it is the address of the client.
    package var addressGap: ClientAddress.Gap?
    /// The owner of the request's credential, as the handler determined it; nil without a valid credential. It may be a
    /// driver's id, so it must not be logged unchanged.
    package var principal: String?
    /// The reason why the request was refused, as the handler words it for the log.
    package var refusalReason: String?
    /// The traceparent field as received, unchecked.
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

/// An observer of answered requests. It must be a class, so that passing it on copies only a reference.
package protocol RequestObserver: AnyObject, Sendable {
    /// Called on a connection's loop, once for each answered or refused request. Must not block.
    func answered(_ request: CompletedRequest)
}
