/// The part of a request before its content. It is already validated, so its users need not check its syntax again.
package struct RequestHead: Hashable, Sendable {
    package var method: Method
    /// The path, decoded once, in canonical form (see RequestTarget). It starts with "/", except for `OPTIONS *`, whose
    /// path is "*".
    package var path: String
    /// The query after "?", not decoded and possibly empty; nil if there is no "?".
    package var query: String?
    /// The host and port of a target in absolute-form. They replace the host and port in the field Host. Nil for
    /// targets in other forms.
    var targetAuthority: String?
    /// The minor version of HTTP, 0 or 1. A higher minor version counts as 1 (RFC 9110 section 2.5).
    package var minorVersion: Int
    /// The fields in the order received, including repeated fields. The values have no surrounding whitespace.
    package var fields: Fields
    package var framing: BodyFraming
    /// Whether the client waits for 100 (Continue) before it sends content (RFC 9110 section 10.1.1). Never true for
    /// HTTP/1.0.
    package var expectsContinue: Bool
    /// Whether the client's HTTP version and Connection fields allow keep-alive. The server may close the connection
    /// nevertheless.
    package var keepAlive: Bool

    /// The host and optional port as the client wrote them. They come from the target if it is in absolute-form, else
    /// from Host. Empty if an HTTP/1.0 request has no Host and no target in absolute-form.
    package var authority: String { targetAuthority ?? fields.first("Host") ?? "" }
}
