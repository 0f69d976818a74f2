/// Percent-encoding (RFC 3986 section 2.1): `pct-encoded = "%" HEXDIG HEXDIG`
enum PercentEncoding {
    /// Returns the byte that the triplet at `index` encodes; nil if there is no complete triplet before `end`.
    static func byte(_ bytes: [UInt8], at index: Int, before end: Int) -> UInt8? {
        guard index + 2 < end, bytes[index] == UInt8(ascii: "%"),
            let high = Grammar.hexValue(bytes[index + 1]), let low = Grammar.hexValue(bytes[index + 2])
        else { return nil }
        return high << 4 | low
    }
}
