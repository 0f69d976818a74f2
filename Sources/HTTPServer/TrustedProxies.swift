// Who the client is when proxies are in between. A field that anybody can send is believed only as far as the chain
// of known proxies reaches: from the right, each address is that of who talked to the proxy before.

internal import HTTP1
internal import Sockets

/// The networks whose X-Forwarded-For is believed. Empty: nobody's.
package struct TrustedProxies: Hashable, Sendable {
    private struct Network: Hashable, Sendable {
        var number: IPNumber
        var prefixBits: Int
    }
    private var networks: [Network] = []
    private var unixSocket = false

    package init() {}

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
                guard let bits = Int(parts[1]), (0...prefixBits).contains(bits) else { return nil }
                prefixBits = bits
            }
            networks.append(Network(number: number, prefixBits: prefixBits))
        }
    }

    /// The client's address as text: the peer's, or what its trusted proxies say.
    func clientAddress(peer: String, _ fields: Fields) -> String {
        guard trusts(peer) else { return peer }
        var client = peer
        let chain = fields.values("X-Forwarded-For").flatMap { $0.split(separator: ",") }
        for entry in chain.reversed() {
            guard let number = IPNumber(String(entry.trimmed)) else { break }
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

extension Substring {
    fileprivate var trimmed: Substring {
        let rest = drop { $0 == " " || $0 == "\t" }
        guard let end = rest.lastIndex(where: { $0 != " " && $0 != "\t" }) else { return "" }
        return rest[...end]
    }
}
