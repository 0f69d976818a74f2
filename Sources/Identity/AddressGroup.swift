// Groups of addresses that are counted together.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The networks that an address belongs to, as names, from the narrowest to the widest.
package struct AddressNetworks: Hashable, Sendable {
    /// Counted as one client: an IPv6 /64, an IPv4 address, anything else unchanged.
    package var address: String
    /// An IPv6 /56, which many homes have; an IPv4 /24. Nil for what is not an IP address.
    package var network: String?
    /// An IPv6 /48, which a site or a rented server can have. Nil for anything else.
    package var site: String?

    package init(_ address: String) {
        var ipv4 = in_addr()
        var ipv6 = in6_addr()
        if inet_pton(AF_INET, address, &ipv4) == 1 {
            self.init(ipv4: withUnsafeBytes(of: ipv4) { Array($0) })
        } else if inet_pton(AF_INET6, address, &ipv6) == 1 {
            let bytes = withUnsafeBytes(of: ipv6) { Array($0) }
            // RFC 4291, section 2.5.5.2: ::ffff:a.b.c.d.
            if bytes.prefix(10).allSatisfy({ $0 == 0 }), bytes[10] == 0xFF, bytes[11] == 0xFF {
                self.init(ipv4: Array(bytes.suffix(4)))
            } else {
                self.init(ipv6: bytes)
            }
        } else {
            self.init(address: address, network: nil, site: nil)
        }
    }

    private init(address: String, network: String?, site: String?) {
        self.address = address
        self.network = network
        self.site = site
    }

    private init(ipv4 bytes: [UInt8]) {
        let numbers = bytes.map { String($0) }
        self.init(
            address: numbers.joined(separator: "."), network: numbers.prefix(3).joined(separator: ".") + "/24",
            site: nil)
    }

    private init(ipv6 bytes: [UInt8]) {
        func name(_ bits: Int) -> String {
            bytes.prefix(bits / 8).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() + "/\(bits)"
        }
        self.init(address: name(64), network: name(56), site: name(48))
    }
}

package enum AddressGroup {
    /// An IPv6 address by its first 64 bits, an IPv4 address (also one mapped into IPv6) and anything else
    /// unchanged.
    package static func name(of address: String) -> String { AddressNetworks(address).address }
}
