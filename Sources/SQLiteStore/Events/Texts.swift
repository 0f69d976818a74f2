// Compares texts byte by byte, as SQLite, the contract and the fold do. Swift's `==` treats canonically equivalent
// texts as equal, for example the Kelvin sign and K.

extension String {
    var isASCII: Bool {
        var text = self
        return text.withUTF8 { bytes in
            // No early exit, so that the loop is vectorised.
            var seen: UInt8 = 0
            for byte in bytes { seen |= byte }
            return seen < 0x80
        }
    }

    /// Returns the result of `haveSameBytes`, faster by `==`, for a text `remembered` that is ASCII. An equivalent text
    /// that is not ASCII has more bytes: each of its other characters is equivalent to one ASCII character, but takes
    /// two or three bytes.
    func hasSameBytes(asASCII remembered: String) -> Bool {
        utf8.count == remembered.utf8.count && self == remembered
    }
}
