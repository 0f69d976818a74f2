package import HTTP1

/// The facts about an answered request, for the access log and for metrics. They include no path and no query, which
/// can contain data that must not be logged.
package struct CompletedRequest: Sendable {
    package var requestID: String
    /// The method; nil if the request was refused before its head was complete. It can be any token that a client
    /// sends, so the set of values is not limited.
    package var method: Method?
    /// The route's template; nil if no route was found, or the request was refused before routing.
    package var routeTemplate: String?
    package var status: Status
    /// The time from the complete head to the encoded response, or to the end of a streamed response.
    package var durationNanoseconds: UInt64
    /// The bytes of the request, including head and framing.
    package var bytesIn: Int
    /// The bytes of the response, including head and framing.
    package var bytesOut: Int
    /// The client's address, behind trusted proxies if there are any; "" for a Unix socket.
    package var remoteAddress: String
    /// Why `remoteAddress` is a trusted proxy's address; nil if it is not.
    package var addressGap: ClientAddress.Gap?
    /// The owner of the request's credential, as the handler found it; nil without a valid credential. It may be a
    /// driver's id, so it must not be logged unchanged.
    package var principal: String?
    /// Why the request was refused, in the handler's words for the log.
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

/// An observer of answered requests. It is a class, so that passing it on copies nothing.
package protocol RequestObserver: AnyObject, Sendable {
    /// Called on a connection's loop, once for each answered or refused request. Must not block.
    func answered(_ request: CompletedRequest)
}
