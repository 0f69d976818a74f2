// The percentage of the drivers to which a rule applies. Each driver has a fixed position for each rule, so the rule
// applies to the same drivers at every request and on every server. A driver in the share stays in it when the share
// grows.

import Crypto
package import JourneyModel

/// A share in percent, from 0 to 100, with at most three decimals.
package struct SettingsShare: Hashable, Sendable, CustomStringConvertible {
    package static let allowed = "a number from 0 to 100 with at most three decimals"
    /// The number of positions. One position stands for a thousandth of a percent of the drivers.
    package static let positions = 100_000

    /// The share contains the positions from 0 to `width` - 1. A larger share therefore contains every smaller one.
    package let width: Int

    /// Returns nil if the text does not match `allowed`.
    package init?(percent text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count),
            parts.allSatisfy({ $0.allSatisfy(\.isASCIIDigit) }),
            (1...3).contains(parts[0].count), let whole = Int(Substring(parts[0]))
        else { return nil }
        var thousandths = 0
        if parts.count == 2 {
            guard (1...3).contains(parts[1].count) else { return nil }
            let digits = String(Substring(parts[1]))
            thousandths = Int(digits + String(repeating: "0", count: 3 - digits.count)) ?? 0
        }
        width = whole * 1000 + thousandths
        guard width <= Self.positions else { return nil }
    }

    /// Returns a position from 0 to `positions` - 1. It is computed from the first 64 bits of a SHA-256 over the rule's
    /// name, a zero byte and the driver's id. Rules with different names therefore select drivers independently.
    package static func position(of driver: DriverID, inRule name: String) -> Int {
        let bytes = Array(name.utf8) + [0] + Array(driver.rawValue.utf8)
        let hash = bytes.withUnsafeBytes { bytes in
            SHA256.hash(data: bytes).prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        }
        return Int(hash.multipliedFullWidth(by: UInt64(positions)).high)
    }

    package func contains(_ position: Int) -> Bool { position < width }

    package var description: String { Self.percent(width) }

    /// Formats a number of positions as a percentage, for example `12.5 %`.
    package static func percent(_ positions: Int) -> String {
        let (whole, rest) = positions.quotientAndRemainder(dividingBy: 1000)
        if rest == 0 { return "\(whole) %" }
        var digits = String(rest)
        digits = String(repeating: "0", count: 3 - digits.count) + digits
        while digits.hasSuffix("0") { digits.removeLast() }
        return "\(whole).\(digits) %"
    }
}
