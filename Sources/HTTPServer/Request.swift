package import HTTP1

/// One whole request, body included, as a handler sees it. Immutable.
package struct Request: Sendable {
    package var method: Method
    /// Decoded and normalised once (see HTTP1/RequestTarget.swift); starts with "/".
    package var path: String
    /// What follows "?", raw; nil when there is no "?".
    package var query: String?
    package var fields: Fields
    package var body: [UInt8]
    /// `X-Request-Id` when it is well-formed, else generated; the server echoes it in the response.
    package var id: String
    /// Whole milliseconds since 1970 when the request head was complete; read once and passed along.
    package var receivedAtMilliseconds: Int64
    /// The client's address as text, for limits by address; trusted proxies are already taken into account.
    package var remoteAddress: String
    /// What the route's `{name}` segments matched.
    package var parameters: [String: String]

    package init(
        method: Method, path: String, query: String? = nil, fields: Fields = Fields(), body: [UInt8] = [],
        id: String, receivedAtMilliseconds: Int64, remoteAddress: String = "", parameters: [String: String] = [:]
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.fields = fields
        self.body = body
        self.id = id
        self.receivedAtMilliseconds = receivedAtMilliseconds
        self.remoteAddress = remoteAddress
        self.parameters = parameters
    }
}
