// Determines where a request's content ends (RFC 9112 section 6). To prevent request smuggling, rejects every request
// that two servers could frame differently.

package enum BodyFraming: Hashable, Sendable {
    /// Without Content-Length and Transfer-Encoding, a request has no content (RFC 9112 section 6.3, rule 7).
    case none
    /// The value of Content-Length, 0 or more.
    case length(Int)
    /// `Transfer-Encoding: chunked`.
    case chunked
}

/// The framing fields of one head. They are collected line by line and evaluated when the head is complete.
struct FramingFields: Sendable {
    private var contentLength: Int?
    private var codings = TransferCodings()

    /// Reads a Content-Length (RFC 9110 section 8.6: `Content-Length = 1*DIGIT`). Rejects a sign and a number above
    /// Int.max.
    ///
    /// Also rejects a second Content-Length and a list of values, even if all values are equal. RFC 9112 section 6.3
    /// allows a server to merge equal values, but this server would then disagree with a proxy that does not merge
    /// them.
    mutating func addContentLength(_ bytes: [UInt8], _ value: Range<Int>) throws(Refusal) {
        guard contentLength == nil else { throw Refusal(.badRequest, "Content-Length is given more than once.") }
        guard let number = Self.decimal(bytes, value) else {
            throw Refusal(.badRequest, "Content-Length is not one decimal number.")
        }
        contentLength = number
    }

    mutating func addTransferEncoding(_ bytes: [UInt8], _ value: Range<Int>) {
        codings.add(bytes, value)
    }

    /// Returns the framing of the content (RFC 9112 sections 6.1 to 6.3). Malformed or contradictory fields are refused
    /// with 400, an unknown coding with 501. If both statuses apply, the refusal is 400.
    func framing(minorVersion: Int) throws(Refusal) -> BodyFraming {
        guard codings.isPresent else { return contentLength.map(BodyFraming.length) ?? .none }
        guard minorVersion >= 1 else {
            throw Refusal(.badRequest, "Transfer-Encoding is not part of HTTP/1.0.")
        }
        guard contentLength == nil else {
            throw Refusal(.badRequest, "Content-Length and Transfer-Encoding must not be combined.")
        }
        try codings.requireChunkedOnly()
        return .chunked
    }

    private static func decimal(_ bytes: [UInt8], _ range: Range<Int>) -> Int? {
        guard !range.isEmpty else { return nil }
        var number = 0
        for index in range {
            guard Grammar.isDigit(bytes[index]) else { return nil }
            let (tenfold, overflow) = number.multipliedReportingOverflow(by: 10)
            let (sum, carry) = tenfold.addingReportingOverflow(Int(bytes[index] - UInt8(ascii: "0")))
            guard !overflow, !carry else { return nil }
            number = sum
        }
        return number
    }
}

/// The codings of all Transfer-Encoding lines, as one list (RFC 9110 section 5.3).
/// ```
/// Transfer-Encoding = #transfer-coding
/// transfer-coding   = token *( OWS ";" OWS transfer-parameter )
/// ```
private struct TransferCodings: Sendable {
    private(set) var isPresent = false
    private var chunkedCount = 0
    private var otherCount = 0
    private var chunkedIsLast = false
    private var isMalformed = false

    mutating func add(_ bytes: [UInt8], _ value: Range<Int>) {
        isPresent = true
        Grammar.forEachListElement(bytes, value) { element in
            let semicolon = Grammar.firstIndex(of: UInt8(ascii: ";"), bytes, element)
            let name = Grammar.trimmed(bytes, element.lowerBound..<(semicolon ?? element.upperBound))
            let isChunked = Grammar.matches(bytes, name, "chunked")
            // Chunked takes no parameters (RFC 9112 section 7.1).
            if !Grammar.isToken(bytes, name) || isChunked && semicolon != nil { isMalformed = true }
            chunkedCount += isChunked ? 1 : 0
            otherCount += isChunked ? 0 : 1
            chunkedIsLast = isChunked
        }
    }

    func requireChunkedOnly() throws(Refusal) {
        guard !isMalformed else { throw Refusal(.badRequest, "Transfer-Encoding is malformed.") }
        guard chunkedCount <= 1 else { throw Refusal(.badRequest, "Transfer-Encoding applies chunked twice.") }
        guard chunkedCount == 0 || chunkedIsLast else {
            throw Refusal(.badRequest, "chunked must be the last transfer coding.")
        }
        guard otherCount == 0 else {
            throw Refusal(.notImplemented, "The only supported transfer coding is chunked.")
        }
    }
}
