// Compares texts byte by byte, as SQLite, the contract and the fold do. Swift's `==` is not suitable, because it also
// accepts canonically equivalent texts. For example, it treats the Kelvin sign as equal to K. A dictionary compares its
// keys by `==`. A cache that has texts as keys therefore holds only ASCII texts: two ASCII texts are equal only if they
// have the same bytes.

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
    /// then uses `==`, which is faster than `haveSameBytes`. The result is the same: a text that is equivalent to an
    /// ASCII text but has other bytes is longer, because each of its characters outside ASCII takes at least two bytes.
    func hasSameBytes(asASCII remembered: String) -> Bool {
        utf8.count == remembered.utf8.count && self == remembered
    }
}
