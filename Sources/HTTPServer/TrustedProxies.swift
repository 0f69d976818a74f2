// Finds the client's address behind proxies. Each proxy appends the address of its own peer to the end of a forwarding
// field. Any client can send such a field, so only the entries that trusted proxies added are used.

package import HTTP1
internal import Sockets

/// The fields in which proxies record the address of their peer. The server reads only the field that the trusted
/// proxies use. It ignores the other field, because the proxies forward that field as the client sent it. The raw
/// values are the values of `TRUSTED_PROXIES_HEADER`.
package enum ForwardingField: String, CaseIterable, Sendable {
    case xForwardedFor = "X-Forwarded-For"
    /// RFC 7239.
    case forwarded = "Forwarded"
}

/// The address of the client. If the client's address is unknown, `text` is the address of a trusted proxy, and `gap`
/// is the reason.
package struct ClientAddress: Hashable, Sendable {
    /// The reason why `text` is a proxy's address: the forwarding field is missing, or its entry for the client is
    /// unreadable. The access log contains the raw values.
    package enum Gap: String, Sendable {
        case absent, unreadable
    }

    /// The address; "" for a Unix socket.
    package var text: String
    /// The reason why the client's address is unknown; nil if the address is known.
    package var gap: Gap?
}

/// The proxies that are trusted: all proxies in the listed networks. If the list contains `unix`, all clients of the
/// Unix socket are trusted too. If the list is empty, no forwarding field is read.
package struct TrustedProxies: Hashable, Sendable, CustomStringConvertible {
    private struct Network: Hashable, Sendable {
        var number: IPAddress
        var prefixBits: Int
    }
    private var networks: [Network] = []
    private var unixSocket = false
    /// The field that all trusted proxies use.
    package var field = ForwardingField.xForwardedFor

    package init() {}

    /// The list, separated by commas: the networks in canonical form, then `unix` if it is in the list.
    package var description: String {
        (networks.map { "\($0.number.text)/\($0.prefixBits)" } + (unixSocket ? ["unix"] : [])).joined(separator: ",")
    }

    /// Parses a list. Each entry is an address, a network such as `10.0.0.0/8` or `fd00::/8`, or `unix` for clients of
    /// the Unix socket. Returns nil if an entry has another form.
    package init?(_ list: [String]) {
        for text in list {
            if text == "unix" {
                unixSocket = true
                continue
            }
            let parts = text.split(separator: "/", omittingEmptySubsequences: false)
            guard let first = parts.first, parts.count <= 2, let number = IPAddress(String(first)) else { return nil }
            var prefixBits = number.bytes.count * 8
            if parts.count == 2 {
                guard parts[1].utf8.count <= 3, parts[1].utf8.allSatisfy({ (48...57).contains($0) }),
                    let bits = Int(parts[1]), bits <= prefixBits
                else { return nil }
                prefixBits = bits
            }
            networks.append(Network(number: number, prefixBits: prefixBits))
        }
    }

    /// If the peer is trusted, returns the client's address according to the header field `field`. Otherwise returns
    /// the peer's own address.
    package func clientAddress(peer: String, _ fields: Fields) -> ClientAddress {
        guard trusts(peer) else { return ClientAddress(text: peer) }
        let chain =
            switch field {
            case .xForwardedFor: ForwardedAddresses.xForwardedFor(fields)
            case .forwarded: ForwardedAddresses.forwarded(fields)
            }
        return client(peer: peer, chain)
    }

    /// Reads the entries backwards, beginning with the entry from the nearest proxy. The first address that is not a
    /// trusted proxy is the address of the client.
    ///
    /// If all addresses are trusted, the address in the first entry of the field is the client's. If an entry is
    /// unreadable, returns the address of the proxy that added it.
    private func client(peer: String, _ chain: [ForwardedAddress]) -> ClientAddress {
        var client = peer
        for entry in chain.reversed() {
            guard let number = entry else { return ClientAddress(text: client, gap: .unreadable) }
            client = number.text
            if !trusts(client) { return ClientAddress(text: client) }
        }
        return ClientAddress(text: client, gap: chain.isEmpty ? .absent : nil)
    }

    private func trusts(_ address: String) -> Bool {
        if networks.isEmpty && !unixSocket { return false }
        if address.isEmpty { return unixSocket }
        guard let number = IPAddress(address) else { return false }
        return networks.contains { number.hasPrefix(of: $0.number, bits: $0.prefixBits) }
    }
}
