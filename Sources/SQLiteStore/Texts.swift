// Texts as SQLite compares them, byte by byte. Swift's `==` finds canonically equivalent texts equal (the Kelvin sign
// and K, for one), which SQLite, the contract and the fold do not.

extension String {
    var isASCII: Bool {
        var text = self
        return text.withUTF8 { bytes in
            // Without a way out of the loop, so that it goes many bytes at a time.
            var seen: UInt8 = 0
            for byte in bytes { seen |= byte }
            return seen < 0x80
        }
    }

    /// `haveSameBytes` for a text that is known to be ASCII, where `==` is quicker: what is equivalent to it and is not
    /// ASCII has more bytes, since each such character is one ASCII character and takes two bytes or three.
    func hasSameBytes(asASCII remembered: String) -> Bool {
        utf8.count == remembered.utf8.count && self == remembered
    }
}
