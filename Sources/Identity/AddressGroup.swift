// Groups of client addresses whose requests are counted together.

import JourneyModel

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The names of the networks to which an address belongs, from the narrowest to the widest.
package struct AddressNetworks: Hashable, Sendable {
    /// The group of addresses that counts as one client: an IPv6 /64 or a single IPv4 address. Any other text is kept
    /// unchanged.
    package var address: String
    /// An IPv6 /56 (many homes have a network of this size) or an IPv4 /24. Nil if the text is not an IP address.
    package var network: String?
    /// An IPv6 /48 (a site or a rented server can have a network of this size). Nil for an IPv4 address and for any
    /// other text.
    package var site: String?

    package init(_ address: String) {
        var ipv4 = in_addr()
        var ipv6 = in6_addr()
        if inet_pton(AF_INET, address, &ipv4) == 1 {
            self.init(ipv4: withUnsafeBytes(of: ipv4) { Array($0) })
        } else if inet_pton(AF_INET6, address, &ipv6) == 1 {
            let bytes = withUnsafeBytes(of: ipv6) { Array($0) }
            // An IPv4-mapped IPv6 address, ::ffff:a.b.c.d (RFC 4291, section 2.5.5.2).
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
            bytes.prefix(bits / 8).hexadecimal + "/\(bits)"
        }
        self.init(address: name(64), network: name(56), site: name(48))
    }
}

package enum AddressGroup {
    /// Returns the name of the group to which an address belongs. For an IPv6 address, this is its /64 network. For an
    /// IPv4 address, even in IPv4-mapped IPv6 form, it is the address in IPv4 form. Returns any other text unchanged.
    package static func name(of address: String) -> String { AddressNetworks(address).address }
}
