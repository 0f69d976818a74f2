// Functions that validate the texts of variables.

import Foundation

extension Variables {
    static func isPath(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count < 4096
            && !text.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }

    static func isHost(_ text: String) -> Bool {
        (1...253).contains(text.utf8.count) && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }

    static func isName(_ text: String) -> Bool {
        (1...256).contains(text.utf8.count) && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }

    /// Returns whether the text has 1 to `bytesMax` bytes and no control characters. Used for texts that a person
    /// writes.
    static func isLine(_ text: String, bytesMax: Int) -> Bool {
        (1...bytesMax).contains(text.utf8.count)
            && !text.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }

    /// Returns the items of a comma-separated list, without the white space around each item. For an empty text,
    /// returns one empty item.
    static func items(in text: String) -> [String] {
        text.split(separator: ",", omittingEmptySubsequences: false).map { $0.trimmingCharacters(in: .whitespaces) }
    }

    static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    static func isUpperOrDigit(_ byte: UInt8) -> Bool { isDigit(byte) || (0x41...0x5A).contains(byte) }

    static func isLetterOrDigit(_ byte: UInt8) -> Bool { isUpperOrDigit(byte) || (0x61...0x7A).contains(byte) }

    /// Returns whether the text can be the bundle id of an app: 1 to 155 letters, digits, dots and hyphens.
    static func isBundleID(_ text: some StringProtocol) -> Bool {
        (1...155).contains(text.utf8.count)
            && text.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") }
    }

    /// Returns the hosts in a comma-separated text, or an empty array for an empty text. Returns nil if the text is not
    /// a list of hosts, or if two of the hosts overlap.
    ///
    /// Binding the second of two overlapping hosts would fail with "address in use". Equal hosts overlap. `::` overlaps
    /// with every other host, and `0.0.0.0` with every host that is not an IPv6 address.
    static func hosts(in text: String) -> [String]? {
        if text.isEmpty { return [] }
        let hosts = items(in: text)
        guard hosts.allSatisfy(isHost), Set(hosts).count == hosts.count else { return nil }
        if hosts.contains("::") { return hosts.count == 1 ? hosts : nil }
        if hosts.contains("0.0.0.0") { return hosts.allSatisfy { $0 == "0.0.0.0" || $0.contains(":") } ? hosts : nil }
        return hosts
    }
}
