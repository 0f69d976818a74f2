// A strict RFC 8259 parser. It reads bytes and returns a JSONValue, or throws an error that contains the offset of the
// error. The time is linear in the length of the text, and `depthMax` limits the recursion.
//
// If a text is not JSON by its grammar, the parser throws at once. A text that is JSON is nevertheless unusable if it
// has duplicate names, invalid UTF-8, half a surrogate pair, or nesting or numbers beyond the limits.
//
// For an unusable text, the parser records the error in `refusal` and continues, so that it finds the end of the value.
// In a batch, an unusable event therefore does not affect the other events.

struct JSONParser {
    /// Maximum nesting of arrays and objects. Request bodies need 4 levels and metadata a few more. The nesting is
    /// limited, because each level uses stack memory.
    static let depthMax = 64
    /// Maximum bytes of one number, including sign, fraction and exponent. A double usually has at most 25 bytes, and
    /// an Int64 has at most 20. With this limit, code that takes quadratic time for a number is fast enough.
    static let numberBytesMax = 64

    /// The text. The buffer is valid only inside the closure that provides it. A parser must therefore be created and
    /// used inside that closure.
    let bytes: UnsafeBufferPointer<UInt8>
    var offset = 0
    /// The first error in a text that is JSON by its grammar but unusable. Nil if there is no such error.
    var refusal: JSONError?
    /// Tells a caller whether the source bytes of a value are compact JSON already. The caller sets this flag to true
    /// before it reads the value, and the parser sets it to false when it reads white space or an escape.
    var isCompact = true

    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        self.bytes = bytes
    }

    /// The byte at `offset`; nil at the end of the text.
    var current: UInt8? {
        offset < bytes.count ? bytes[offset] : nil
    }

    func failure(_ reason: JSONError.Reason) -> JSONError {
        JSONError(offset < bytes.count ? reason : .unexpectedEnd, offset: offset)
    }

    mutating func refuse(_ reason: JSONError.Reason, at offset: Int) {
        if refusal == nil { refusal = JSONError(reason, offset: offset) }
    }

    // MARK: Structure

    /// Skips white space and returns the first byte of the next value.
    mutating func startOfValue() -> UInt8? {
        skipWhitespace()
        return current
    }

    /// Reads a value that lies inside `depth` arrays and objects.
    mutating func value(depth: Int) throws(JSONError) -> JSONValue {
        switch startOfValue() {
        case UInt8(ascii: "{"): try object(depth: depth)
        case UInt8(ascii: "["): try array(depth: depth)
        case UInt8(ascii: "\""): .string(try string())
        case UInt8(ascii: "t"): try literal("true", .bool(true))
        case UInt8(ascii: "f"): try literal("false", .bool(false))
        case UInt8(ascii: "n"): try literal("null", .null)
        default: .number(try number())
        }
    }

    private mutating func object(depth: Int) throws(JSONError) -> JSONValue {
        guard try mayOpen(depth: depth) else { return .null }
        var members: [JSONMember] = []
        // Most bodies and most metadata have at most this many members, so one allocation is enough for the members.
        members.reserveCapacity(depth == 0 ? 8 : 4)
        var names = JSONNames()
        try list(from: UInt8(ascii: "{"), to: UInt8(ascii: "}")) { parser throws(JSONError) in
            let name = try parser.name(&names, after: members.lazy.map(\.name))
            members.append(JSONMember(name, try parser.value(depth: depth + 1)))
        }
        return .object(members)
    }

    private mutating func array(depth: Int) throws(JSONError) -> JSONValue {
        guard try mayOpen(depth: depth) else { return .null }
        var elements: [JSONValue] = []
        try self.elements { parser throws(JSONError) in
            elements.append(try parser.value(depth: depth + 1))
        }
        return .array(elements)
    }

    /// Throws if anything other than white space is left.
    mutating func end() throws(JSONError) {
        skipWhitespace()
        if offset < bytes.count { throw failure(.trailingBytes) }
    }

    /// Reads a member's name and the colon after it. `earlier` holds the names before this one in the object.
    mutating func name(
        _ names: inout JSONNames, after earlier: some Collection<String>
    ) throws(JSONError) -> String {
        let start = try startOfName()
        let name = try string()
        if !names.isNew(name, after: earlier) { refuse(.duplicateName, at: start) }
        try endOfName()
        return name
    }

    /// Skips white space and returns the offset of the quote that begins a member's name.
    mutating func startOfName() throws(JSONError) -> Int {
        skipWhitespace()
        guard current == UInt8(ascii: "\"") else { throw failure(.unexpectedByte) }
        return offset
    }

    mutating func endOfName() throws(JSONError) {
        skipWhitespace()
        try take(UInt8(ascii: ":"))
    }

    /// Reads the array that begins here; `each` reads one element.
    mutating func elements(_ each: (inout JSONParser) throws(JSONError) -> Void) throws(JSONError) {
        try list(from: UInt8(ascii: "["), to: UInt8(ascii: "]"), each)
    }

    /// Reads `open`, any number of items separated by commas, and `close`.
    mutating func list(
        from open: UInt8, to close: UInt8, _ item: (inout JSONParser) throws(JSONError) -> Void
    ) throws(JSONError) {
        try take(open)
        skipWhitespace()
        if current == close {
            offset += 1
            return
        }
        while true {
            try item(&self)
            skipWhitespace()
            if current == close { break }
            try take(UInt8(ascii: ","))
        }
        offset += 1
    }

    /// Returns whether one more level of nesting is within the limit. If it is not, records the refusal and skips the
    /// array or object that begins here.
    private mutating func mayOpen(depth: Int) throws(JSONError) -> Bool {
        if depth < Self.depthMax { return true }
        refuse(.tooDeep, at: offset)
        try skipContainer()
        return false
    }

    /// Skips the array or object that begins here. Does not recurse, because the nesting may be deep.
    private mutating func skipContainer() throws(JSONError) {
        var open = 0
        while let byte = current {
            offset += 1
            switch byte {
            case UInt8(ascii: "["), UInt8(ascii: "{"): open += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"): open -= 1
            case UInt8(ascii: "\""):
                while let inside = current, inside != UInt8(ascii: "\"") {
                    offset += inside == UInt8(ascii: "\\") ? 2 : 1
                }
                offset += 1
            default: break
            }
            if open == 0 { return }
        }
        offset = bytes.count
        throw failure(.unexpectedEnd)
    }

    private mutating func take(_ byte: UInt8) throws(JSONError) {
        guard current == byte else { throw failure(.unexpectedByte) }
        offset += 1
    }

    private mutating func skipWhitespace() {
        while offset < bytes.count {
            switch bytes[offset] {
            case 0x20, 0x09, 0x0A, 0x0D:
                offset += 1
                isCompact = false
            default: return
            }
        }
    }

    private mutating func literal(_ text: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
        for index in 0..<text.utf8CodeUnitCount {
            guard current == text.utf8Start[index] else { throw failure(.unexpectedByte) }
            offset += 1
        }
        return value
    }

    // MARK: Numbers

    private mutating func number() throws(JSONError) -> String {
        String(decoding: try numberText(), as: UTF8.self)
    }

    /// Reads a number of RFC 8259, section 6: `[ minus ] int [ frac ] [ exp ]`. If the number is too long, records the
    /// refusal and returns only its last digit, because the result must be a valid number.
    mutating func numberText() throws(JSONError) -> UnsafeBufferPointer<UInt8> {
        let start = offset
        skip(UInt8(ascii: "-"))
        guard let first = current, first.isASCIIDigit else {
            throw failure(offset > start ? .invalidNumber : .unexpectedByte)
        }
        if first == UInt8(ascii: "0") { offset += 1 } else { try digits() }
        if current?.isASCIIDigit == true { throw failure(.invalidNumber) }
        if skip(UInt8(ascii: ".")) { try digits() }
        if skip(UInt8(ascii: "e")) || skip(UInt8(ascii: "E")) {
            if !skip(UInt8(ascii: "+")) { skip(UInt8(ascii: "-")) }
            try digits()
        }
        guard offset - start <= Self.numberBytesMax else {
            refuse(.numberTooLong, at: start)
            return UnsafeBufferPointer(rebasing: bytes[(offset - 1)..<offset])
        }
        return UnsafeBufferPointer(rebasing: bytes[start..<offset])
    }

    private mutating func digits() throws(JSONError) {
        let start = offset
        while let byte = current, byte.isASCIIDigit { offset += 1 }
        if offset == start { throw failure(.invalidNumber) }
    }

    @discardableResult
    mutating func skip(_ byte: UInt8) -> Bool {
        guard current == byte else { return false }
        offset += 1
        return true
    }
}
