// Phone numbers as ITU-T E.164 has them, in the one form in which they are stored and compared.

/// `+` and 8 to 15 digits, the first of which is not 0.
package struct PhoneNumber: Hashable, Sendable {
    package let e164: String

    /// The plus and the first six digits: the country and a block of its numbers. Messages to one block that somebody
    /// earns by have it in common.
    package var prefix: String { String(e164.prefix(7)) }

    /// Takes what people put between digits (spaces, hyphens, dots, parentheses) and `00` for the plus. Nil for
    /// anything else, also for a number without its country: nobody can tell which one it means.
    package init?(_ text: String) {
        // Longer than any way of writing one: nothing below is done for a text that cannot be one.
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

/// A phone number is shown to nobody by accident.
extension PhoneNumber: CustomStringConvertible, CustomReflectable {
    package var description: String { "<phone number>" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
