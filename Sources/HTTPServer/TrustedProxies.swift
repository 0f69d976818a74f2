// The client's address behind proxies. Any client can send a forwarding field, so it is trusted only as far as the
// chain of known proxies reaches: read from the right, each entry is the peer of the proxy before it.

package import HTTP1
internal import Sockets

/// The one field in which the trusted proxies record their peer. The other one is never read: a proxy passes it on as
/// the client sent it. The raw values are those of `TRUSTED_PROXIES_HEADER`.
package enum ForwardingField: String, CaseIterable, Sendable {
    case xForwardedFor = "X-Forwarded-For"
    /// RFC 7239.
    case forwarded = "Forwarded"
}

/// The client's address, and why it is not known if it is a proxy's.
package struct ClientAddress: Hashable, Sendable {
    /// Why a trusted proxy's field does not name the client; `text` is then the nearest proxy's address. The raw values
    /// are those of the access log.
    package enum Gap: String, Sendable {
        case absent, unreadable
    }

    /// "" for a Unix socket.
    package var text: String
    /// nil when the peer is not trusted, or a trusted peer names its client.
    package var gap: Gap?
}

/// The networks whose forwarding field is trusted. Empty: none.
package struct TrustedProxies: Hashable, Sendable, CustomStringConvertible {
    private struct Network: Hashable, Sendable {
        var number: IPAddress
        var prefixBits: Int
    }
    private var networks: [Network] = []
    private var unixSocket = false
    /// The field that all of them use.
    package var field = ForwardingField.xForwardedFor

    package init() {}

    /// The list this was made of, in canonical form: separated by commas, without spaces.
    package var description: String {
        (networks.map { "\($0.number.text)/\($0.prefixBits)" } + (unixSocket ? ["unix"] : [])).joined(separator: ",")
    }

    /// Each entry is an address, a network such as `10.0.0.0/8` or `fd00::/8`, or `unix` for clients of the Unix
    /// socket. nil when one of them is none of these.
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

    /// The client's address: the peer's, or for a trusted peer the one in `field`.
    package func clientAddress(peer: String, _ fields: Fields) -> ClientAddress {
        guard trusts(peer) else { return ClientAddress(text: peer) }
        let chain =
            switch field {
            case .xForwardedFor: ForwardedAddresses.xForwardedFor(fields)
            case .forwarded: ForwardedAddresses.forwarded(fields)
            }
        return client(peer: peer, chain)
    }

    /// Walks the chain from the right while the entry's source is trusted.
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
