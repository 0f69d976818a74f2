// The limits on what a client may send, each with its reason and the values of other servers. A request that exceeds a
// limit is rejected with the status named below, and the connection is closed. No limit can be turned off.

package struct Limits: Hashable, Sendable {
    /// Maximum length of the request line, without its CRLF. RFC 9112 section 3 recommends at least 8000 bytes; nginx
    /// allows 8 KiB, Apache 8190 bytes. The longest request line of our clients is under 100 bytes. Status: 414, or 501
    /// if the method alone is longer than `methodBytesMax`.
    package var requestLineBytesMax = 8 * 1024
    /// Maximum length of the method. The longest registered method is UPDATEREDIRECTREF, 17 letters. Status: 501 (RFC
    /// 9112 section 3).
    package var methodBytesMax = 32
    /// Maximum number of empty lines that are skipped before a request line. RFC 9112 section 2.2 asks for at least one
    /// (old clients end a body with an extra CRLF). An unlimited number would keep a connection busy without a request.
    /// Status: 400.
    package var emptyLinesBeforeRequestMax = 4
    /// Maximum length of the whole field section, including its CRLFs and the empty line that ends it. nginx allows 4 x
    /// 8 KiB, node 16 KiB, Tomcat 8 KiB. A phone sends less than 2 KiB, and proxies add some fields. Status: 431.
    package var fieldSectionBytesMax = 32 * 1024
    /// Maximum number of field lines in one head. It bounds the memory for many tiny fields, each of which needs more
    /// memory than its bytes. Apache allows 100. Status: 431.
    package var fieldCountMax = 100
    /// Maximum length of the content on any route. The longest content is a batch of events of 1 MiB.
    /// `limitBody(toBytes:)` applies a route's lower limit. Status: 413.
    package var bodyBytesMax = 1024 * 1024
    /// Maximum total length of the chunk extensions of one request (RFC 9112 section 7.1.1 asks for a limit on the
    /// total). Only attackers send chunk extensions. Status: 400.
    package var chunkExtensionBytesMax = 1024
    /// Maximum length of the trailer section, including its CRLFs. None of our clients sends trailers. A checksum or a
    /// signature fits. Status: 431.
    package var trailerSectionBytesMax = 4 * 1024
    /// Maximum number of trailer field lines. Status: 431.
    package var trailerCountMax = 16

    /// Maximum number of digits of a chunk size: 16 hexadecimal digits hold any 64-bit number. Status: 400.
    static let chunkSizeDigitsMax = 16
    /// Maximum capacity of the empty input buffer that an idle connection keeps: 40 MiB in total for 10 000
    /// connections.
    static let idleBufferBytesMax = 4 * 1024

    package init() {}
}
