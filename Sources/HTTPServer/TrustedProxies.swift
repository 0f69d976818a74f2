// Who the client is when proxies are in between. A field that anybody can send is believed only as far as the chain
// of known proxies reaches: from the right, each address is that of who talked to the proxy before.

package import HTTP1
internal import Sockets

/// The networks whose Forwarded and X-Forwarded-For are believed. Empty: nobody's.
package struct TrustedProxies: Hashable, Sendable, CustomStringConvertible {
    private struct Network: Hashable, Sendable {
        var number: IPNumber
        var prefixBits: Int
    }
    private var networks: [Network] = []
    private var unixSocket = false

    package init() {}

    /// As a list with commas, without spaces: what this was made of, in one form.
    package var description: String {
        (networks.map { "\($0.number.text)/\($0.prefixBits)" } + (unixSocket ? ["unix"] : [])).joined(separator: ",")
    }

    /// Each an address, a network such as `10.0.0.0/8` or `fd00::/8`, or `unix` for whoever connects to the Unix
    /// socket. nil when one of them is neither.
    package init?(_ list: [String]) {
        for text in list {
            if text == "unix" {
                unixSocket = true
                continue
            }
            let parts = text.split(separator: "/", omittingEmptySubsequences: false)
            guard let first = parts.first, parts.count <= 2, let number = IPNumber(String(first)) else { return nil }
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

    /// The client's address as text: the peer's, or what its trusted proxies say.
    ///
    /// A proxy writes one of the two fields and passes the other one on as it came, so that a client can put anything
    /// there. Where both are there and name different clients, neither is believed: the answer is the peer.
    package func clientAddress(peer: String, _ fields: Fields) -> String {
        guard trusts(peer) else { return peer }
        let chains = [ForwardedAddresses.xForwardedFor(fields), ForwardedAddresses.forwarded(fields)]
        let clients = Set(chains.filter { !$0.isEmpty }.map { client(peer: peer, $0) })
        return clients.count == 1 ? clients.first ?? peer : peer
    }

    /// From the right, as far as those who say it are trusted.
    private func client(peer: String, _ chain: [ForwardedAddress]) -> String {
        var client = peer
        for entry in chain.reversed() {
            guard let number = entry else { break }
            client = number.text
            if !trusts(client) { break }
        }
        return client
    }

    private func trusts(_ address: String) -> Bool {
        if networks.isEmpty && !unixSocket { return false }
        if address.isEmpty { return unixSocket }
        guard let number = IPNumber(address) else { return false }
        return networks.contains { number.hasPrefix(of: $0.number, bits: $0.prefixBits) }
    }
}
