// One text for all ways of writing the same JSON value: members sorted by the bytes of their names, numbers by
// their value, strings by their characters. ASCII only. What was written once is compared by its digest for as long as
// the event is kept, so not a byte of it may ever change.

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

    /// The digits without zeros at their ends and the power of ten that they count: `-12.50e1` is `-125e0`.
    /// Exact, unlike a detour over Double. `text` is a JSON number; one whose exponent has more than 9 digits
    /// stays as it is.
    private mutating func canonicalNumber(_ text: UnsafeBufferPointer<UInt8>) {
        guard let number = DecimalNumber(text) else {
            for byte in text { self.byte(byte) }
            return
        }
        guard let digits = number.digits else { return byte(UInt8(ascii: "0")) }
        if number.isNegative { byte(UInt8(ascii: "-")) }
        for place in digits where text[place] != UInt8(ascii: ".") { byte(text[place]) }
        byte(UInt8(ascii: "e"))
        self.digits(Int64(number.exponent))
    }
}

/// A JSON number taken apart, its digits left where they are.
struct DecimalNumber {
    private(set) var isNegative = false
    /// From the first digit that is no zero to the last, perhaps with the point between them; nil for zero.
    private(set) var digits: ClosedRange<Int>?
    /// Of ten, for the last of `digits`.
    private(set) var exponent = 0

    /// Nil when the text's own exponent has more than 9 digits and a sign, or 10.
    init?(_ text: UnsafeBufferPointer<UInt8>) {
        // Where the exponent counts from: the point, or the end of the digits.
        var (point, end) = (Int?.none, text.count)
        reading: for (place, byte) in text.enumerated() {
            switch byte {
            case UInt8(ascii: "-"): isNegative = true
            case UInt8(ascii: "."): point = place
            case UInt8(ascii: "0"): break
            case UInt8(ascii: "e"), UInt8(ascii: "E"):
                end = place
                let power = text[(place + 1)...]
                guard power.count <= 10, let power = Int(String(decoding: power, as: UTF8.self)) else { return nil }
                exponent = power
                break reading
            default: digits = (digits?.lowerBound ?? place)...place
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
