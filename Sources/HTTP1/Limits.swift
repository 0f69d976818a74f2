// The limits on what a client may send. The comment at each limit gives its reason, and often the limits of other
// servers. A request that exceeds a limit is rejected with the status given at that limit, and the connection is
// closed. No limit can be turned off.

package struct Limits: Hashable, Sendable {
    /// The maximum length of the request line, without its CRLF. RFC 9112 section 3 recommends at least 8000 bytes.
    /// nginx allows 8 KiB, and Apache 8190 bytes. The longest request line of our clients contains a push token of at
    /// most 512 bytes. Status: 414, or 501 if the method alone is longer than `methodBytesMax`.
    package var requestLineBytesMax = 8 * 1024
    /// The maximum length of the method. The longest registered method is UPDATEREDIRECTREF, with 17 letters. Status:
    /// 501 (RFC 9112 section 3).
    package var methodBytesMax = 32
    /// The maximum number of empty lines that are skipped before a request line. RFC 9112 section 2.2 asks servers to
    /// skip at least one, because old clients end a body with an extra CRLF. Without a maximum, empty lines could keep
    /// a connection busy without a request. Status: 400.
    package var emptyLinesBeforeRequestMax = 4
    /// The maximum length of the whole field section, including its CRLFs and the empty line that ends it. nginx allows
    /// 4 x 8 KiB, node 16 KiB, and Tomcat 8 KiB. A phone sends less than 2 KiB, and proxies add some fields. Status:
    /// 431.
    package var fieldSectionBytesMax = 32 * 1024
    /// The maximum number of field lines in one head. Each field needs more memory than its bytes, so many tiny fields
    /// would need much memory. Apache allows 100. Status: 431.
    package var fieldCountMax = 100
    /// The maximum length of the content on any route. 1 MiB is the maximum of a batch of events. `limitBody(toBytes:)`
    /// applies the lower limit of a route. Status: 413.
    package var bodyBytesMax = 1024 * 1024
    /// The maximum total length of the chunk extensions of one request. RFC 9112 section 7.1.1 asks for a limit on the
    /// total. Only attackers send chunk extensions. Status: 400.
    package var chunkExtensionBytesMax = 1024
    /// The maximum length of the trailer section, including its CRLFs. None of our clients sends trailers. The limit
    /// leaves enough room for a checksum or a signature. Status: 431.
    package var trailerSectionBytesMax = 4 * 1024
    /// Maximum number of trailer field lines. Status: 431.
    package var trailerCountMax = 16

    /// The maximum number of digits of a chunk size. Every 64-bit number has at most 16 hexadecimal digits. Status:
    /// 400.
    static let chunkSizeDigitsMax = 16
    /// The maximum capacity of an empty input buffer that an idle connection keeps. For 10 000 connections, this is 40
    /// MiB in total.
    static let idleBufferBytesMax = 4 * 1024

    package init() {}
}
