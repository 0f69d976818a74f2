// A JSON number as an integer, exactly, however it is written: `41`, and also `41.0` and `4.1e1`. Some encoders have one
// type for numbers, and JSON Schema calls them integers. Not by way of a Double, which has no odd numbers above 2^53.

enum WholeNumber {
    /// More digits than an Int64 has.
    private static let digitsMax = 19

    /// nil when it has a fraction, is no Int64, or is longer than the parser takes. `text` is a number as JSON's grammar
    /// has it (RFC 8259 section 6).
    static func read(_ text: String) -> Int64? {
        var text = text
        return text.withUTF8(read)
    }

    static func read(_ text: UnsafeBufferPointer<UInt8>) -> Int64? {
        // Checked here too: the text below is taken apart at some cost per digit.
        guard text.count <= JSONParser.numberBytesMax else { return nil }
        let mantissa = text.prefix { $0 | 0x20 != UInt8(ascii: "e") }
        // Zero, whatever it is multiplied by.
        guard mantissa.contains(where: { (0x31...0x39).contains($0) }) else { return 0 }
        // An exponent of ten digits is beyond every Int64, or below every integer.
        guard let number = DecimalNumber(text), let digits = number.digits else { return nil }
        let significant = text[digits].filter(\.isASCIIDigit)
        guard number.exponent >= 0, significant.count + number.exponent <= digitsMax else { return nil }
        let sign = number.isNegative ? "-" : ""
        return Int64(
            sign + String(decoding: significant, as: UTF8.self) + String(repeating: "0", count: number.exponent))
    }
}
