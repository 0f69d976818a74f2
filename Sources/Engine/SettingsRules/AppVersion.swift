// The version of an app, as the rules of settings compare it.

/// One to four whole numbers joined by dots, such as `7.2.1`. Versions are compared number by number. A missing number
/// counts as 0, so `7.2` and `7.2.0` are equal.
package struct AppVersion: Hashable, Comparable, Sendable, CustomStringConvertible {
    package static let allowed = "one to four whole numbers of at most nine digits, joined by dots, such as 7.2.1"

    /// The numbers without zeros at the end, because `7.2` and `7.2.0` must be equal.
    private let numbers: [UInt32]

    /// Returns nil if the text is not such a version, for example `7.2-beta`.
    package init?(_ text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), maxSplits: 4, omittingEmptySubsequences: false)
        guard parts.count <= 4 else { return nil }
        var numbers: [UInt32] = []
        for part in parts {
            guard (1...9).contains(part.count), part.allSatisfy({ (0x30...0x39).contains($0) }),
                let number = UInt32(Substring(part))
            else { return nil }
            numbers.append(number)
        }
        while numbers.last == 0 { numbers.removeLast() }
        self.numbers = numbers
    }

    package static func < (one: AppVersion, other: AppVersion) -> Bool {
        one.numbers.lexicographicallyPrecedes(other.numbers)
    }

    package var description: String {
        numbers.isEmpty ? "0" : numbers.map(String.init).joined(separator: ".")
    }
}
