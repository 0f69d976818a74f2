// Determines whether the client keeps the connection (RFC 9112 section 9.3), from its version and its Connection fields
// (RFC 9110 section 7.6.1: `Connection = #connection-option`, options are compared case-insensitively).

struct ConnectionOptions: Sendable {
    private var close = false
    private var keepAlive = false

    /// Adds one Connection field line. Ignores options other than close and keep-alive, because this server neither
    /// forwards nor upgrades.
    mutating func add(_ bytes: [UInt8], _ value: Range<Int>) {
        Grammar.forEachListElement(bytes, value) { option in
            if Grammar.matches(bytes, option, "close") { close = true }
            if Grammar.matches(bytes, option, "keep-alive") { keepAlive = true }
        }
    }

    /// Returns whether the connection persists: not after close, which overrides keep-alive; otherwise in HTTP/1.1
    /// always, and in HTTP/1.0 only with keep-alive.
    func persists(minorVersion: Int) -> Bool {
        !close && (minorVersion >= 1 || keepAlive)
    }
}
