// Compares texts byte by byte, as SQLite, the contract and the fold do. Swift's `==` treats canonically equivalent
// texts as equal. For example, it treats the Kelvin sign as equal to K.

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

    /// Returns whether this text has the same bytes as `remembered`, which must be ASCII. Compares the numbers of
    /// bytes, and then uses `==`. This is faster than `haveSameBytes` and gives the same result. `==` also accepts
    /// equivalent texts with characters outside ASCII, but such a text has more bytes: each such character takes two or
    /// three bytes and is equivalent to one ASCII character.
    func hasSameBytes(asASCII remembered: String) -> Bool {
        utf8.count == remembered.utf8.count && self == remembered
    }
}
