// Determines whether the connection stays open after a request (RFC 9112 section 9.3). This depends on the HTTP version
// and the Connection fields (RFC 9110 section 7.6.1: `Connection = #connection-option`).

struct ConnectionOptions: Sendable {
    private var close = false
    private var keepAlive = false

    /// Adds one Connection field line. Ignores all options except close and keep-alive, because this server does not
    /// forward messages or upgrade connections.
    mutating func add(_ bytes: [UInt8], _ value: Range<Int>) {
        Grammar.forEachListElement(bytes, value) { option in
            if Grammar.matches(bytes, option, "close") { close = true }
            if Grammar.matches(bytes, option, "keep-alive") { keepAlive = true }
        }
    }

    /// Returns whether the connection stays open after this request. `close` overrides `keep-alive`.
    func persists(minorVersion: Int) -> Bool {
        !close && (minorVersion >= 1 || keepAlive)
    }
}
