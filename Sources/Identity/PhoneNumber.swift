// Phone numbers (ITU-T E.164), in the only form in which they are stored and compared.

/// `+` and 8 to 15 digits, the first of which is not 0.
package struct PhoneNumber: Hashable, Sendable {
    package let e164: String

    /// The plus and the first six digits, which identify a country and a block of its numbers. Toll fraud sends many
    /// messages to one block.
    package var prefix: String { String(e164.prefix(7)) }

    /// Accepts separators between digits (spaces, hyphens, dots, parentheses) and `00` for the plus. Returns nil for
    /// anything else, and for a number without its country code, which is ambiguous.
    package init?(_ text: String) {
        // A longer text is never a number, so the work below is skipped.
        guard text.utf8.count <= 64 else { return nil }
        var digits = String(text.unicodeScalars.filter { !" -.()".unicodeScalars.contains($0) })
        if digits.hasPrefix("+") {
            digits.removeFirst()
        } else if digits.hasPrefix("00") {
            digits.removeFirst(2)
        } else {
            return nil
        }
        guard (8...15).contains(digits.utf8.count), digits.utf8.first != UInt8(ascii: "0"),
            digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
        e164 = "+" + digits
    }
}

/// Keeps a phone number from being shown by accident.
extension PhoneNumber: CustomStringConvertible, CustomReflectable {
    package var description: String { "<phone number>" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
