// Compares texts byte by byte, as SQLite, the contract and the fold do. Swift's `==` also accepts canonically
// equivalent texts, for example K and the Kelvin sign.
//
// A dictionary compares its keys by `==`, so a cache that has texts as keys holds only ASCII texts. Two ASCII texts are
// equal only if they have the same bytes.

extension String {
    var isASCII: Bool {
        var text = self
        return text.withUTF8 { bytes in
            // The loop has no early exit, so that the compiler can vectorise it.
            var seen: UInt8 = 0
            for byte in bytes { seen |= byte }
            return seen < 0x80
        }
    }

    /// Returns whether this text has the same bytes as `remembered`, which must be ASCII. Compares the byte counts and
    /// then uses `==`, which is faster than `haveSameBytes`.
    ///
    /// The result is the same as that of a byte comparison. An equivalent text with other bytes contains characters
    /// outside ASCII. Each of them takes at least two bytes, so this text is longer.
    func hasSameBytes(asASCII remembered: String) -> Bool {
        utf8.count == remembered.utf8.count && self == remembered
    }
}
