/// A request up to its empty line, validated: its users need not check its form again.
package struct RequestHead: Hashable, Sendable {
    package var method: Method
    /// Decoded once, in the canonical form (see RequestTarget): starts with "/", or is "*" for `OPTIONS *`.
    package var path: String
    /// What follows "?", raw and possibly empty; nil when there is no "?".
    package var query: String?
    /// The host and port of a target in absolute-form, which replace Host; nil for the other forms.
    var targetAuthority: String?
    /// 0 or 1; a higher minor version counts as 1 (RFC 9110 section 2.5).
    package var minorVersion: Int
    /// In the order received, repeats included, whitespace around values removed.
    package var fields: Fields
    package var framing: BodyFraming
    /// The client waits for 100 (Continue) before it sends content; never true for 1.0 (RFC 9110 section 10.1.1).
    package var expectsContinue: Bool
    /// Whether the client's version and Connection fields allow keep-alive; the server may still close.
    package var keepAlive: Bool

    /// Host and optional port as the client wrote them: from the target in absolute-form, else from Host; empty
    /// when a 1.0 client named none.
    package var authority: String { targetAuthority ?? fields.first("Host") ?? "" }
}
