// Phone numbers in the form of ITU-T E.164, the only form in which they are stored and compared.

/// `+` and 8 to 15 digits, the first of which is not 0.
package struct PhoneNumber: Hashable, Sendable {
    package let e164: String

    /// The plus and the first six digits, which identify a country and a block of its numbers. Toll fraudsters earn
    /// money from text messages to their own numbers. The server therefore limits the codes that it sends to one block.
    package var prefix: String { String(e164.prefix(7)) }

    /// Reads a phone number. Accepts separators between digits (spaces, hyphens, dots, parentheses), and `00` instead
    /// of the plus. Returns nil for any other text. A number without its country code is refused because it is
    /// ambiguous.
    package init?(_ text: String) {
        // A text of more than 64 bytes cannot be a phone number. It is rejected before the work below.
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

/// Shows a placeholder in place of the phone number, so that a log line or a dump does not reveal it by accident.
extension PhoneNumber: CustomStringConvertible, CustomReflectable {
    package var description: String { "<phone number>" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
