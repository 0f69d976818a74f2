// Compares texts byte by byte, as SQLite, the contract and the fold do. Swift's `==` also accepts canonically
// equivalent texts, for example K and the Kelvin sign.
//
// Dictionaries compare keys by `==`. A cache with texts as keys therefore holds only ASCII texts, which are equal only
// if they have the same bytes.

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

    /// Returns whether this text has the same bytes as `remembered`, which must be ASCII. Compares by `==`, because
    /// `==` is faster than `haveSameBytes`.
    ///
    /// The comparison of the byte counts makes `==` exact. A text that is equivalent to an ASCII text but has other
    /// bytes is longer, because its characters outside ASCII take at least two bytes each.
    func hasSameBytes(asASCII remembered: String) -> Bool {
        utf8.count == remembered.utf8.count && self == remembered
    }
}
