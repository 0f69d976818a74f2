package import HTTP1

/// A request, as a handler gets it. A `RequestJudge` gets the request too, but before the body is complete.
package struct Request: Sendable {
    package var method: Method
    /// The path, decoded once, in canonical form (see HTTP1/RequestTarget.swift). It starts with "/".
    package var path: String
    /// The query after "?", undecoded; nil if there is no "?".
    package var query: String?
    package var fields: Fields
    package var body: [UInt8]
    /// The maximum length of the body in bytes (`Route.bodyBytesMax`). It applies to the body as received, and to the
    /// decompressed body.
    package var bodyBytesMax: Int
    /// The client's `X-Request-Id` if that is well-formed, otherwise a generated id. The response contains this id.
    package var id: String
    /// The time at which the request's head was complete, in whole milliseconds since 1970. Code that handles the
    /// request uses this time instead of reading the clock again.
    package var receivedAtMilliseconds: Int64
    /// The client's address as text, used for the limits per address. If trusted proxies forwarded the request, this is
    /// the address that the proxies recorded for the client.
    package var remoteAddress: String
    /// The values that the route's `{name}` segments matched.
    package var parameters: [String: String]

    package init(
        method: Method, path: String, query: String? = nil, fields: Fields = Fields(), body: [UInt8] = [],
        bodyBytesMax: Int = Route.defaultBodyBytesMax, id: String, receivedAtMilliseconds: Int64,
        remoteAddress: String = "", parameters: [String: String] = [:]
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.fields = fields
        self.body = body
        self.bodyBytesMax = bodyBytesMax
        self.id = id
        self.receivedAtMilliseconds = receivedAtMilliseconds
        self.remoteAddress = remoteAddress
        self.parameters = parameters
    }
}
