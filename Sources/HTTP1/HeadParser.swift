// Parses a request head, one complete line at a time (RFC 9112 sections 3 and 5).
//
// A typical head needs at most three allocations: two for the arrays in `Fields`, and one for the String of the path. A
// path of up to 15 bytes needs no allocation, because Swift stores it inline.

struct HeadParser: Sendable {
    /// The method. It is kept even if the rest of the head is rejected, because no response to HEAD may have content
    /// (RFC 9110 section 9.3.2).
    private(set) var method: Method?
    private var target = RequestTarget(path: "")
    private var minorVersion = 0
    private(set) var fields = Fields()
    private var framing = FramingFields()
    private var options = ConnectionOptions()
    private var hasHost = false
    private var expectsContinue = false
    /// An error in the target. It is thrown only after all fields are read, because the error response repeats the
    /// request id, which may be in a field.
    private var targetRefusal: Refusal?

    // MARK: Request line

    /// Reads `request-line = method SP request-target SP HTTP-version` (RFC 9112 section 3), with single spaces only.
    /// The version is checked before the target, so that the HTTP/2 preface `PRI * HTTP/2.0` gets 505.
    mutating func readRequestLine(_ bytes: [UInt8], _ line: Range<Int>, limits: Limits) throws(Refusal) {
        let space = Grammar.firstIndex(of: Grammar.space, bytes, line)
        let methodRange = line.lowerBound..<(space ?? line.upperBound)
        guard Grammar.isToken(bytes, methodRange) else { throw Self.malformedRequestLine }
        guard methodRange.count <= limits.methodBytesMax else { throw Self.unknownMethod }
        let method = Method(bytes, methodRange)
        self.method = method

        guard let space else { throw Self.malformedRequestLine }
        guard let secondSpace = Grammar.firstIndex(of: Grammar.space, bytes, (space + 1)..<line.upperBound)
        else { throw Self.malformedRequestLine }
        try readVersion(bytes, (secondSpace + 1)..<line.upperBound)
        do throws(Refusal) {
            target = try RequestTarget.parse(bytes, (space + 1)..<secondSpace, method: method)
        } catch {
            targetRefusal = error
        }
    }

    /// Reads `HTTP-version = "HTTP" "/" DIGIT "." DIGIT`, case-sensitive (RFC 9112 section 2.3).
    private mutating func readVersion(_ bytes: [UInt8], _ range: Range<Int>) throws(Refusal) {
        let name: StaticString = "HTTP/"
        let lower = range.lowerBound
        guard range.count == 8, bytes[lower + 6] == UInt8(ascii: "."),
            Grammar.isDigit(bytes[lower + 5]), Grammar.isDigit(bytes[lower + 7]),
            name.withUTF8Buffer({ $0.elementsEqual(bytes[lower..<(lower + 5)]) })
        else { throw Self.malformedRequestLine }
        guard bytes[lower + 5] == UInt8(ascii: "1") else {
            throw Refusal(.httpVersionNotSupported, "Only HTTP/1.1 and HTTP/1.0 are supported.")
        }
        minorVersion = bytes[lower + 7] == UInt8(ascii: "0") ? 0 : 1
    }

    /// Returns the refusal of a request line that is longer than the limit. `start` is the beginning of the line, up to
    /// the limit.
    mutating func refusalOfLongRequestLine(_ bytes: [UInt8], _ start: Range<Int>, limits: Limits) -> Refusal {
        let space = Grammar.firstIndex(of: Grammar.space, bytes, start)
        let methodRange = start.lowerBound..<(space ?? start.upperBound)
        guard Grammar.isToken(bytes, methodRange) else { return Self.malformedRequestLine }
        guard methodRange.count <= limits.methodBytesMax else { return Self.unknownMethod }
        method = Method(Grammar.text(bytes, methodRange))
        return Refusal(.uriTooLong, "The request line is too long.")
    }

    private static let malformedRequestLine = Refusal(.badRequest, "The request line is malformed.")
    private static let unknownMethod = Refusal(.notImplemented, "The method is not implemented.")

    // MARK: Field lines

    mutating func readFieldLine(_ bytes: [UInt8], _ line: Range<Int>, limits: Limits) throws(Refusal) {
        guard fields.count < limits.fieldCountMax else {
            throw Refusal(.requestHeaderFieldsTooLarge, "The request has too many fields.")
        }
        let field = try FieldLine.parse(bytes, line)
        try judge(bytes, field)
        fields.append(field, of: bytes)
    }

    /// Evaluates the fields that affect framing, routing, keep-alive and 100 (Continue).
    private mutating func judge(_ bytes: [UInt8], _ field: FieldLine) throws(Refusal) {
        switch field.name.count {
        case 4 where Grammar.matches(bytes, field.name, "host"):
            try readHost(bytes, field.value)
        case 6 where Grammar.matches(bytes, field.name, "expect"):
            try readExpect(bytes, field.value)
        case 10 where Grammar.matches(bytes, field.name, "connection"):
            options.add(bytes, field.value)
        case 14 where Grammar.matches(bytes, field.name, "content-length"):
            try framing.addContentLength(bytes, field.value)
        case 17 where Grammar.matches(bytes, field.name, "transfer-encoding"):
            framing.addTransferEncoding(bytes, field.value)
        default:
            break
        }
    }

    /// Reads a Host field. In every HTTP version, a second Host or an invalid value gets 400 (RFC 9112 section 3.2).
    private mutating func readHost(_ bytes: [UInt8], _ value: Range<Int>) throws(Refusal) {
        guard !hasHost else { throw Refusal(.badRequest, "Host is given more than once.") }
        guard Authority.isValid(bytes, value) else { throw Refusal(.badRequest, "Host is not a valid host and port.") }
        hasHost = true
    }

    /// Reads an Expect field. 100-continue is the only defined expectation. Any other expectation gets 417 (RFC 9110
    /// section 10.1.1).
    private mutating func readExpect(_ bytes: [UInt8], _ value: Range<Int>) throws(Refusal) {
        guard Grammar.matches(bytes, value, "100-continue") else {
            throw Refusal(.expectationFailed, "The only supported expectation is 100-continue.")
        }
        expectsContinue = true
    }

    // MARK: The empty line

    /// Returns the complete head. Must be called only after the empty line was read.
    func finish() throws(Refusal) -> RequestHead {
        if let targetRefusal { throw targetRefusal }
        guard minorVersion == 0 || hasHost else {
            throw Refusal(.badRequest, "An HTTP/1.1 request needs a Host field.")
        }
        return RequestHead(
            method: method ?? .get, path: target.path, query: target.query,
            targetAuthority: target.authority, minorVersion: minorVersion, fields: fields,
            framing: try framing.framing(minorVersion: minorVersion),
            expectsContinue: expectsContinue && minorVersion >= 1,
            keepAlive: options.persists(minorVersion: minorVersion))
    }
}
