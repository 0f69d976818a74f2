// Who the client is when proxies are in between. A field that anybody can send is believed only as far as the chain
// of known proxies reaches: from the right, each address is that of who talked to the proxy before.

package import HTTP1
internal import Sockets

/// The one field in which the trusted proxies write whom they talked to. The other one is never read: a proxy passes it
/// on as the client sent it. The raw values are those of `TRUSTED_PROXIES_HEADER`.
package enum ForwardingField: String, CaseIterable, Sendable {
    case xForwardedFor = "X-Forwarded-For"
    /// RFC 7239.
    case forwarded = "Forwarded"
}

/// Who the client is, and how it became known.
package struct ClientAddress: Hashable, Sendable {
    /// Why a trusted proxy's field does not say it; the address is the nearest proxy's then. The raw values are those of
    /// the access log.
    package enum Gap: String, Sendable {
        case absent, unreadable
    }

    /// "" for a Unix socket.
    package var text: String
    /// nil when the peer is not trusted, or a trusted peer names its client.
    package var gap: Gap?
}

/// The networks whose forwarding field is believed. Empty: nobody's.
package struct TrustedProxies: Hashable, Sendable, CustomStringConvertible {
    private struct Network: Hashable, Sendable {
        var number: IPAddress
        var prefixBits: Int
    }
    private var networks: [Network] = []
    private var unixSocket = false
    /// Of all of them.
    package var field = ForwardingField.xForwardedFor

    package init() {}

    /// As a list with commas, without spaces: what this was made of, in one form.
    package var description: String {
        (networks.map { "\($0.number.text)/\($0.prefixBits)" } + (unixSocket ? ["unix"] : [])).joined(separator: ",")
    }

    /// Each an address, a network such as `10.0.0.0/8` or `fd00::/8`, or `unix` for clients of the Unix
    /// socket. nil when one of them is neither.
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

    /// The client's address: the peer's, or what its trusted proxies say in `field`.
    package func clientAddress(peer: String, _ fields: Fields) -> ClientAddress {
        guard trusts(peer) else { return ClientAddress(text: peer) }
        let chain =
            switch field {
            case .xForwardedFor: ForwardedAddresses.xForwardedFor(fields)
            case .forwarded: ForwardedAddresses.forwarded(fields)
            }
        return client(peer: peer, chain)
    }

    /// From the right, as far as those who say it are trusted.
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
