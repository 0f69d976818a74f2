// Canonical JSON: the same ASCII text for all notations of a JSON value. Members are sorted by the bytes of their
// names. Exception: a number whose exponent has more than 10 characters keeps its notation.
//
// Digests of the text are stored with events and compared later, so no release may change the text of a value.

extension JSONWriter {
    static func canonical(reservingBytes capacity: Int) -> JSONWriter {
        JSONWriter(reservingBytes: capacity, escapesNonASCII: true)
    }

    mutating func canonicalValue(_ value: JSONValue) {
        switch value {
        case .number(let text):
            separate()
            var text = text
            text.withUTF8 { canonicalNumber($0) }
        case .array(let elements):
            beginArray()
            for element in elements { canonicalValue(element) }
            endArray()
        case .object(let members):
            beginObject()
            for member in Self.areSorted(members) ? members : members.sorted(by: Self.precedes) {
                name(member.name)
                canonicalValue(member.value)
            }
            endObject()
        case .null, .bool, .string:
            self.value(value)
        }
    }

    private static func areSorted(_ members: [JSONMember]) -> Bool {
        members.indices.dropFirst().allSatisfy { precedes(members[$0 - 1], members[$0]) }
    }

    private static func precedes(_ one: JSONMember, _ other: JSONMember) -> Bool {
        one.name.utf8.lexicographicallyPrecedes(other.name.utf8)
    }

    /// Writes the digits without leading and trailing zeros, and then their power of ten: `-12.50e1` becomes `-125e0`.
    /// The number is not converted to Double, so the result is exact.
    ///
    /// `text` must be a JSON number.
    private mutating func canonicalNumber(_ text: UnsafeBufferPointer<UInt8>) {
        guard let number = DecimalNumber(text) else {
            for byte in text { self.byte(byte) }
            return
        }
        guard let digits = number.digits else { return byte(UInt8(ascii: "0")) }
        if number.isNegative { byte(UInt8(ascii: "-")) }
        for index in digits where text[index] != UInt8(ascii: ".") { byte(text[index]) }
        byte(UInt8(ascii: "e"))
        self.digits(Int64(number.exponent))
    }
}

/// A JSON number split into sign, digits and exponent. The digits are not copied.
struct DecimalNumber {
    private(set) var isNegative = false
    /// The range of the text from the first nonzero digit to the last nonzero digit. The range may contain the decimal
    /// point. Nil if the number is zero.
    private(set) var digits: ClosedRange<Int>?
    /// The power of ten of the last digit in `digits`.
    private(set) var exponent = 0

    /// Splits the text of a JSON number. Returns nil if the exponent, with its sign, has more than 10 characters.
    init?(_ text: UnsafeBufferPointer<UInt8>) {
        // `point` is the index of the decimal point, if there is one. `end` is the index of the `e` or `E`, or the end
        // of the text if there is no exponent.
        var (point, end) = (Int?.none, text.count)
        reading: for (index, byte) in text.enumerated() {
            switch byte {
            case UInt8(ascii: "-"): isNegative = true
            case UInt8(ascii: "."): point = index
            case UInt8(ascii: "0"): break
            case UInt8(ascii: "e"), UInt8(ascii: "E"):
                end = index
                let power = text[(index + 1)...]
                guard power.count <= 10, let power = Int(String(decoding: power, as: UTF8.self)) else { return nil }
                exponent = power
                break reading
            default: digits = (digits?.lowerBound ?? index)...index
            }
        }
        guard let last = digits?.upperBound else { return }
        if let point, last > point {
            exponent -= last - point
        } else {
            exponent += (point ?? end) - last - 1
        }
    }
}
