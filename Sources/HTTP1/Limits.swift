// The limits on what a client may send, each with its reason and the values of other servers. A request over a limit
// is rejected, and the connection is closed. No limit can be turned off.

package struct Limits: Hashable, Sendable {
    /// Longest request line, without its CRLF. RFC 9112 section 3 recommends at least 8000 bytes; nginx allows 8 KiB,
    /// Apache 8190. The longest of our clients is under 100. Over it: 414 (501 if not even the method fits).
    package var requestLineBytesMax = 8 * 1024
    /// Longest method. The longest registered one is UPDATEREDIRECTREF, 17 letters. Over it: 501 (RFC 9112
    /// section 3).
    package var methodBytesMax = 32
    /// Empty lines skipped before a request line. RFC 9112 section 2.2 asks for at least one (old clients end a body
    /// with an extra CRLF). An unlimited number would keep a connection busy without a request. Over it: 400.
    package var emptyLinesBeforeRequestMax = 4
    /// Whole field section with its CRLFs and the empty line that ends it. nginx allows 4 x 8 KiB, node 16 KiB, Tomcat
    /// 8 KiB. A phone sends less than 2 KiB, to which proxies add some fields. Over it: 431.
    package var fieldSectionBytesMax = 32 * 1024
    /// Field lines in one head, so that many tiny fields cannot cost more memory than their bytes suggest. Apache
    /// allows 100. Over it: 431.
    package var fieldCountMax = 100
    /// Longest content of any route, which is a batch of 1 MiB. `limitBody(toBytes:)` applies a route's lower limit.
    /// Over it: 413.
    package var bodyBytesMax = 1024 * 1024
    /// Total length of the chunk extensions of one request (RFC 9112 section 7.1.1 asks for a limit on the total). Only
    /// attackers send chunk extensions. Over it: 400.
    package var chunkExtensionBytesMax = 1024
    /// Trailer section with its CRLFs. None of our clients sends trailers. A checksum or a signature fits. Over it:
    /// 431.
    package var trailerSectionBytesMax = 4 * 1024
    /// Trailer field lines. Over it: 431.
    package var trailerCountMax = 16

    /// Digits of a chunk size: 16 hexadecimal digits hold any 64-bit number. Over it: 400.
    static let chunkSizeDigitsMax = 16
    /// Capacity of an empty input buffer that a connection keeps, so that 10 000 idle connections hold at most 40 MiB.
    static let idleBufferBytesMax = 4 * 1024

    package init() {}
}
