package import HTTP1

/// A handler's response. The server adds Date, Content-Length or Transfer-Encoding, Connection and X-Request-Id; a
/// handler never sets these.
package struct Response: Sendable {
    package enum Body: Sendable {
        case bytes([UInt8])
        /// Written piece by piece with chunked coding; `write` waits while the client does not read.
        case stream(@Sendable (any ResponseBodyWriter) async throws -> Void)
    }

    package var status: Status
    package var fields: Fields
    package var body: Body
    /// For the access log, never sent: the owner of the request's credential; nil when it was not determined.
    package var principal: String?
    /// For the access log, never sent: why the request was refused, when the response does not say it.
    package var refusalReason: String?

    package init(status: Status, fields: Fields = Fields(), body: Body = .bytes([])) {
        self.status = status
        self.fields = fields
        self.body = body
    }
}

/// The handler's side of a streamed response body.
package protocol ResponseBodyWriter: Sendable {
    /// Writes the next bytes; returns when the connection can take more. Throws when the client is gone.
    func write(_ bytes: [UInt8]) async throws

    /// Calls the closure once when the client has sent its last byte, or now if it already has. The client may be gone,
    /// or may only have nothing more to send: the next write finds out. Must not block; not called after the stream's
    /// end.
    func whenClientEndsSending(_ body: @escaping @Sendable () -> Void)
}

extension ResponseBodyWriter {
    package func whenClientEndsSending(_ body: @escaping @Sendable () -> Void) {}
}
