package import HTTP1

/// A handler's response. The server adds Date, Content-Length or Transfer-Encoding, Connection and X-Request-Id;
/// handlers never set these fields.
package struct Response: Sendable {
    package enum Body: Sendable {
        case bytes([UInt8])
        /// A body that the closure writes in pieces. The server sends the pieces in chunked coding. For an HTTP/1.0
        /// client, the end of the connection ends the body. `write` waits while the client does not read.
        case stream(@Sendable (any ResponseBodyWriter) async throws -> Void)
    }

    package var status: Status
    package var fields: Fields
    package var body: Body
    /// The value of the `RateLimit` field, which contains the caller's quotas after this request. Nil if the request
    /// used no quota.
    package var rateLimit: String?
    /// The owner of the request's credential, for the access log; nil if it was not determined. It is never sent.
    package var principal: String?
    /// The reason of a refusal, for the access log; nil if the response itself contains the reason. It is never sent.
    package var refusalReason: String?

    package init(status: Status, fields: Fields = Fields(), body: Body = .bytes([])) {
        self.status = status
        self.fields = fields
        self.body = body
    }
}

/// The handler's side of a streamed response body.
package protocol ResponseBodyWriter: Sendable {
    /// Writes the next bytes; returns when the connection can take more. Throws if the client is gone, or if another
    /// write still waits.
    func write(_ bytes: [UInt8]) async throws

    /// Calls the closure once, when the client closes its sending direction. If that direction is already closed, calls
    /// the closure at once. The client may still read the response; only the next write shows whether the client is
    /// gone.
    ///
    /// The closure must not block. It is not called after the end of the stream.
    func whenClientEndsSending(_ body: @escaping @Sendable () -> Void)
}

extension ResponseBodyWriter {
    package func whenClientEndsSending(_ body: @escaping @Sendable () -> Void) {}
}
