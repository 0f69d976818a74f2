// The validation of texts for several variables.

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

    /// Returns the hosts. Returns nil when the text is not a list of hosts, or when one host in the list includes
    /// another host. `::` includes all addresses of IPv6 and IPv4, and `0.0.0.0` includes all addresses of IPv4. If one
    /// host includes another, binding the second would fail with "address in use".
    static func hosts(in text: String) -> [String]? {
        if text.isEmpty { return [] }
        let hosts = text.split(separator: ",", omittingEmptySubsequences: false)
            .map { $0.trimmingCharacters(in: .whitespaces) }
        guard hosts.allSatisfy(isHost), Set(hosts).count == hosts.count else { return nil }
        if hosts.contains("::") { return hosts.count == 1 ? hosts : nil }
        if hosts.contains("0.0.0.0") { return hosts.allSatisfy { $0 == "0.0.0.0" || $0.contains(":") } ? hosts : nil }
        return hosts
    }
}
