/// A request without its content. The syntax of the head is already checked.
package struct RequestHead: Hashable, Sendable {
    package var method: Method
    /// The path, decoded once, in canonical form (see RequestTarget). It starts with "/", except for `OPTIONS *`, whose
    /// path is "*".
    package var path: String
    /// The query after "?", not decoded and possibly empty; nil if there is no "?".
    package var query: String?
    /// The host and port of a target in absolute-form; nil for targets in other forms. They override the field Host.
    var targetAuthority: String?
    /// The minor version of HTTP, 0 or 1. A higher minor version counts as 1 (RFC 9110 section 2.5).
    package var minorVersion: Int
    /// The fields in the order received, including repeated fields. The values have no surrounding whitespace.
    package var fields: Fields
    package var framing: BodyFraming
    /// Whether the client waits for 100 (Continue) before it sends content (RFC 9110 section 10.1.1). Never true for
    /// HTTP/1.0.
    package var expectsContinue: Bool
    /// Whether the client's HTTP version and Connection fields allow keep-alive. Even if they do, the server may close
    /// the connection.
    package var keepAlive: Bool

    /// The host and optional port as the client wrote them: from a target in absolute-form, otherwise from Host. Empty
    /// if an HTTP/1.0 request has neither.
    package var authority: String { targetAuthority ?? fields.first("Host") ?? "" }
}
