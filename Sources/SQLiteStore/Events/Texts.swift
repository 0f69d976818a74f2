// Texts as SQLite compares them, byte by byte. Swift's `==` treats canonically equivalent texts as equal (the
// Kelvin sign and K, for one), which SQLite, the contract and the fold do not.

extension String {
    var isASCII: Bool {
        var text = self
        return text.withUTF8 { bytes in
            // Without an early exit, so that it is vectorised.
            var seen: UInt8 = 0
            for byte in bytes { seen |= byte }
            return seen < 0x80
        }
    }

    /// `haveSameBytes` for a text known to be ASCII, where `==` is faster: an equivalent text that is not ASCII has
    /// more bytes, since each such character is equivalent to one ASCII character and takes two or three bytes.
    func hasSameBytes(asASCII remembered: String) -> Bool {
        utf8.count == remembered.utf8.count && self == remembered
    }
}
