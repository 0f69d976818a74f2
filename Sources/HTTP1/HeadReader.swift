// Reads the lines of one request head (RFC 9112 section 2), and limits their number and length. HeadParser interprets
// the lines.

struct HeadReader: Sendable {
    private var parser = HeadParser()
    private(set) var hasRequestLine = false
    private var emptyLines = 0
    private var fieldSectionBytes = 0

    /// The field lines read so far.
    var fields: Fields { parser.fields }
    /// Nil until the request line was read. Kept even if the rest of the head is rejected.
    var method: Method? { parser.method }

    /// Returns the method even if the request line is still incomplete. Returns nil until the method and the space
    /// after it were received.
    func method(in input: InputBuffer) -> Method? {
        if let method { return method }
        let space = Grammar.firstIndex(of: Grammar.space, input.bytes, input.available)
        return space.map { Method(Grammar.text(input.bytes, input.available.lowerBound..<$0)) }
    }

    /// Reads the available lines. Returns nil while the head is incomplete.
    mutating func read(_ input: inout InputBuffer, limits: Limits) throws(Refusal) -> RequestHead? {
        if !hasRequestLine {
            guard try readRequestLine(&input, limits: limits) else { return nil }
            hasRequestLine = true
        }
        while true {
            switch input.takeLine(bytesMax: limits.fieldSectionBytesMax - fieldSectionBytes - 2) {
            case .incomplete:
                return nil
            case .tooLong:
                throw Refusal(.requestHeaderFieldsTooLarge, "The fields of the request are too long.")
            case .bareLineFeed:
                throw Self.bareLineFeed
            case .complete(let line):
                if line.isEmpty { return try parser.finish() }
                fieldSectionBytes += line.count + 2
                try parser.readFieldLine(input.bytes, line, limits: limits)
            }
        }
    }

    /// Reads the request line. Returns false if the line is incomplete.
    ///
    /// The first byte is checked as soon as it arrives, so that a TLS client is rejected at once. Such a client might
    /// never send a line feed.
    private mutating func readRequestLine(_ input: inout InputBuffer, limits: Limits) throws(Refusal) -> Bool {
        while true {
            if let first = input.available.first, !Grammar.tokenBytes.contains(input.bytes[first]),
                input.bytes[first] != Grammar.carriageReturn
            {
                throw Refusal(.badRequest, "The request does not start with a method.")
            }
            switch input.takeLine(bytesMax: limits.requestLineBytesMax) {
            case .incomplete:
                return false
            case .tooLong:
                let start = input.available.prefix(limits.requestLineBytesMax)
                throw parser.refusalOfLongRequestLine(input.bytes, start, limits: limits)
            case .bareLineFeed:
                throw Self.bareLineFeed
            case .complete(let line) where line.isEmpty:
                emptyLines += 1
                guard emptyLines <= limits.emptyLinesBeforeRequestMax else {
                    throw Refusal(.badRequest, "Too many empty lines before a request.")
                }
            case .complete(let line):
                try parser.readRequestLine(input.bytes, line, limits: limits)
                return true
            }
        }
    }

    private static let bareLineFeed = Refusal(.badRequest, "A line does not end in CRLF.")
}
