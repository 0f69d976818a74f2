// Whether the client keeps the connection (RFC 9112 section 9.3), from its version and its Connection fields
// (RFC 9110 section 7.6.1: `Connection = #connection-option`, options compare without regard to case).

struct ConnectionOptions: Sendable {
    private var close = false
    private var keepAlive = false

    /// Adds one Connection field line. Options other than close and keep-alive do not concern this server: it
    /// neither forwards nor upgrades.
    mutating func add(_ bytes: [UInt8], _ value: Range<Int>) {
        Grammar.forEachListElement(bytes, value) { option in
            if Grammar.matches(bytes, option, "close") { close = true }
            if Grammar.matches(bytes, option, "keep-alive") { keepAlive = true }
        }
    }

    /// close overrides keep-alive; otherwise 1.1 persists, and 1.0 only on request.
    func persists(minorVersion: Int) -> Bool {
        !close && (minorVersion >= 1 || keepAlive)
    }
}
