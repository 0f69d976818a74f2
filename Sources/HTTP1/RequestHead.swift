/// A request up to its empty line. It is validated: its users need not check its form again.
package struct RequestHead: Hashable, Sendable {
    package var method: Method
    /// The path, decoded once, in the canonical form (see RequestTarget). It starts with "/", or is "*" for
    /// `OPTIONS *`.
    package var path: String
    /// The query after "?", undecoded and possibly empty; nil if there is no "?".
    package var query: String?
    /// The host and port of a target in absolute-form, which override Host; nil for the other forms.
    var targetAuthority: String?
    /// The minor version, 0 or 1. A higher minor version counts as 1 (RFC 9110 section 2.5).
    package var minorVersion: Int
    /// The fields in the order received, including repeated fields, without whitespace around values.
    package var fields: Fields
    package var framing: BodyFraming
    /// Whether the client waits for 100 (Continue) before it sends content; never true for HTTP/1.0 (RFC 9110 section
    /// 10.1.1).
    package var expectsContinue: Bool
    /// Whether the client's version and Connection fields allow keep-alive; the server may still close.
    package var keepAlive: Bool

    /// The host and optional port as the client wrote them: from the target in absolute-form, else from Host; empty if
    /// an HTTP/1.0 client sent neither.
    package var authority: String { targetAuthority ?? fields.first("Host") ?? "" }
}
