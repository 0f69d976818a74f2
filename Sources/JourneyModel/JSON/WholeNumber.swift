// Reads a JSON number as an exact integer, whether it is written as `41`, `41.0` or `4.1e1`. Encoders with only one
// number type may write any of these, and JSON Schema counts all three as integers. The conversion does not use Double,
// because Double cannot represent odd numbers above 2^53.

enum WholeNumber {
    /// The number of digits of the largest Int64.
    private static let digitsMax = 19

    /// Returns the integer. Returns nil if the number has a fraction, does not fit an Int64, or is longer than the
    /// parser accepts. `text` must be a number by JSON's grammar (RFC 8259, section 6).
    static func read(_ text: String) -> Int64? {
        var text = text
        return text.withUTF8(read)
    }

    static func read(_ text: UnsafeBufferPointer<UInt8>) -> Int64? {
        // The parser's limit is checked here too, because the time of the code below grows with the number of digits.
        guard text.count <= JSONParser.numberBytesMax else { return nil }
        let mantissa = text.prefix { $0 | 0x20 != UInt8(ascii: "e") }
        // A number without a nonzero digit is zero, whatever its exponent.
        guard mantissa.contains(where: { (0x31...0x39).contains($0) }) else { return 0 }
        guard let number = DecimalNumber(text), let digits = number.digits else {
            // `DecimalNumber` returns nil if the exponent has more than 10 characters. If such an exponent has leading
            // zeros, the number is read again without these zeros. If it has no leading zeros, the number is too large
            // for an Int64 or has a fraction.
            return withoutLeadingZeros(text, exponentAfter: mantissa.count)
                .flatMap { $0.withUnsafeBufferPointer { read($0) } }
        }
        let significant = text[digits].filter(\.isASCIIDigit)
        guard number.exponent >= 0, significant.count + number.exponent <= digitsMax else { return nil }
        let sign = number.isNegative ? "-" : ""
        return Int64(
            sign + String(decoding: significant, as: UTF8.self) + String(repeating: "0", count: number.exponent))
    }

    /// Removes the leading zeros of the exponent, which comes after the first `mantissaCount` bytes. Returns nil if the
    /// exponent has no leading zeros.
    private static func withoutLeadingZeros(
        _ text: UnsafeBufferPointer<UInt8>, exponentAfter mantissaCount: Int
    ) -> [UInt8]? {
        guard let digits = text.dropFirst(mantissaCount).firstIndex(where: \.isASCIIDigit) else { return nil }
        // The last digit stays, even if it is a zero.
        let zeros = text[digits...].dropLast().prefix { $0 == UInt8(ascii: "0") }
        return zeros.isEmpty ? nil : Array(text[..<digits]) + text[zeros.endIndex...]
    }
}
