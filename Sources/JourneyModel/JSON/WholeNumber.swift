// A JSON number as an integer, exactly, however it is written: `41`, and also `41.0` and `4.1e1`. Some encoders have one
// type for numbers, and JSON Schema calls them integers. Not by way of a Double, which has no odd numbers above 2^53.

enum WholeNumber {
    /// More digits than an Int64 has.
    private static let digitsMax = 19

    /// nil when it has a fraction or is no Int64. `text` is a number as JSON's grammar has it (RFC 8259 section 6).
    static func read(_ text: String) -> Int64? {
        if let number = Int64(text) { return number }
        let parts = text.split(maxSplits: 1, whereSeparator: { $0 == "e" || $0 == "E" })
        guard let mantissa = parts.first else { return nil }
        let sides = mantissa.split(separator: ".", maxSplits: 1)
        let fraction = sides.count > 1 ? sides[1] : ""
        var digits = sides.joined().drop { $0 == "-" || $0 == "0" }
        if digits.isEmpty { return 0 }
        var trailing = 0
        while digits.last == "0" {
            digits.removeLast()
            trailing += 1
        }
        // An exponent beyond Int is beyond every Int64, or below every integer.
        guard let exponent = parts.count > 1 ? Int(parts[1]) : 0, exponent.magnitude < 1 << 32 else { return nil }
        let zeros = exponent - fraction.count + trailing
        guard zeros >= 0, digits.count + zeros <= digitsMax else { return nil }
        return Int64((mantissa.hasPrefix("-") ? "-" : "") + digits + String(repeating: "0", count: zeros))
    }
}
