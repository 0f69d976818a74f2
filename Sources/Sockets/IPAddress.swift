#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// An IPv4 or IPv6 address. An IPv4-mapped IPv6 address (::ffff:a.b.c.d) is stored as the IPv4 address.
package struct IPAddress: Hashable, Sendable {
    /// The address in network order, 4 or 16 bytes.
    package let bytes: [UInt8]

    /// Parses an address. Returns nil for any other text. Names are not looked up.
    package init?(_ text: String) {
        if text.utf8.count > 45 || text.utf8.contains(0) { return nil }
        var four = [UInt8](repeating: 0, count: 4)
        var sixteen = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &four) == 1 {
            bytes = four
        } else if inet_pton(AF_INET6, text, &sixteen) == 1 {
            bytes = IPAddress.unmapped(sixteen)
        } else {
            return nil
        }
    }

    init?(_ endpoint: Endpoint) {
        let bytes = endpoint.number
        if bytes.isEmpty { return nil }
        self.bytes = IPAddress.unmapped(bytes)
    }

    /// The address in its shortest form, as inet_ntop writes it.
    package var text: String {
        var bytes = bytes
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = bytes.count == 4 ? AF_INET : AF_INET6
        guard inet_ntop(family, &bytes, &buffer, socklen_t(buffer.count)) != nil else { return "" }
        let end = buffer.firstIndex(of: 0) ?? buffer.count
        return String(decoding: buffer[..<end].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Returns whether the first `bits` bits of both addresses are equal. Returns false if one is an IPv4 address and
    /// the other an IPv6 address.
    package func hasPrefix(of other: IPAddress, bits: Int) -> Bool {
        guard bytes.count == other.bytes.count, (0...bytes.count * 8).contains(bits) else { return false }
        let whole = bits / 8
        guard bytes[..<whole] == other.bytes[..<whole] else { return false }
        let rest = bits % 8
        return rest == 0 || (bytes[whole] ^ other.bytes[whole]) >> (8 - rest) == 0
    }

    private static func unmapped(_ bytes: [UInt8]) -> [UInt8] {
        let isMapped =
            bytes.count == 16 && bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xff && bytes[11] == 0xff
        return isMapped ? Array(bytes[12...]) : bytes
    }
}
