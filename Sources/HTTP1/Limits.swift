// The limits on what a client may send, with the reason for each limit. A request that exceeds a limit is rejected with
// the status given at that limit, and the connection is closed. No limit can be turned off.

package struct Limits: Hashable, Sendable {
    /// The maximum length of the request line, without its CRLF. Status: 414, or 501 if the method alone is longer than
    /// `methodBytesMax`.
    ///
    /// RFC 9112 section 3 recommends at least 8000 bytes. The longest request line of our clients contains a push token
    /// of at most 512 bytes.
    package var requestLineBytesMax = 8 * 1024
    /// The maximum length of the method. The longest registered method has 17 letters. Status: 501 (RFC 9112 section
    /// 3).
    package var methodBytesMax = 32
    /// The maximum number of empty lines that are skipped before a request line. Status: 400.
    ///
    /// Old clients send an extra CRLF after a body, so RFC 9112 section 2.2 asks servers to skip at least one empty
    /// line. Without a limit, a client could keep a connection busy with nothing but empty lines.
    package var emptyLinesBeforeRequestMax = 4
    /// The maximum length of the field section, including its CRLFs and the empty line that ends it. Status: 431.
    ///
    /// nginx allows 4 x 8 KiB, node 16 KiB, and Tomcat 8 KiB. A phone sends less than 2 KiB, and proxies add some
    /// fields.
    package var fieldSectionBytesMax = 32 * 1024
    /// The maximum number of field lines in one head. Status: 431.
    ///
    /// Each field needs more memory than its bytes, so many tiny fields would need much memory. Apache allows 100.
    package var fieldCountMax = 100
    /// The maximum length of the content on any route. Only a batch of events may be this long. Status: 413.
    ///
    /// A route with a lower limit sets that limit with `limitBody(toBytes:)`.
    package var bodyBytesMax = 1024 * 1024
    /// The maximum total length of the chunk extensions of one request. Only attackers send chunk extensions (RFC 9112
    /// section 7.1.1). Status: 400.
    package var chunkExtensionBytesMax = 1024
    /// The maximum length of the trailer section, including its CRLFs. Status: 431.
    ///
    /// None of our clients sends trailers. The limit leaves enough room for a checksum or a signature.
    package var trailerSectionBytesMax = 4 * 1024
    /// Maximum number of trailer field lines. Status: 431.
    package var trailerCountMax = 16

    /// The maximum number of hexadecimal digits of a chunk size. 16 digits are enough for every 64-bit number. Status:
    /// 400.
    static let chunkSizeDigitsMax = 16
    /// An idle connection frees an empty input buffer that is larger than this. 10 000 idle connections therefore keep
    /// at most 40 MiB.
    static let idleBufferBytesMax = 4 * 1024

    package init() {}
}
