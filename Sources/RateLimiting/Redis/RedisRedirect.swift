// The error replies with which a node of a Redis Cluster says that it does not have a key
// (redis.io/docs/reference/cluster-spec, "Redirection and resharding").

internal import Sockets

enum RedisRedirect: Hashable, Sendable {
    /// The slot now belongs to another node. The address is nil if the cluster does not know the address of that node.
    case moved(slot: Int, to: SocketAddress?)
    /// The slot is moving to the node at this address, which must execute the command. That node accepts the command
    /// only after ASKING.
    case ask(SocketAddress)
    /// The slot is moving, and only some of the command's keys have moved. No node can execute the command until the
    /// other keys have moved too.
    case tryAgain

    /// Parses an error reply: `MOVED slot host:port`, `ASK slot host:port` or `TRYAGAIN ...`. Returns nil for any other
    /// error.
    ///
    /// - Parameter askedHost: the host of the node that replied. Used if the reply has no host.
    init?(errorText: String, askedHost: String) {
        let words = errorText.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
        switch words.first {
        case "TRYAGAIN":
            self = .tryAgain
        case "MOVED":
            guard words.count == 3, let slot = Self.slot(words[1]) else { return nil }
            if words[2].hasPrefix("?:") {
                self = .moved(slot: slot, to: nil)
            } else {
                guard let address = Self.address(words[2], askedHost) else { return nil }
                self = .moved(slot: slot, to: address)
            }
        case "ASK":
            guard words.count == 3, Self.slot(words[1]) != nil, let address = Self.address(words[2], askedHost) else {
                return nil
            }
            self = .ask(address)
        default:
            return nil
        }
    }

    private static func slot(_ text: Substring) -> Int? {
        RedisEndpoint.decimal(text).flatMap { (0..<RedisSlots.count).contains($0) ? $0 : nil }
    }

    /// Parses `host:port`. An IPv6 address is written without brackets, so the port is after the last colon.
    private static func address(_ text: Substring, _ askedHost: String) -> SocketAddress? {
        guard let colon = text.lastIndex(of: ":"), let port = RedisEndpoint.decimal(text[text.index(after: colon)...]),
            (1...65535).contains(port)
        else { return nil }
        let host = colon == text.startIndex ? askedHost : String(text[..<colon])
        return RedisEndpoint.isHost(host) ? .ip(host: host, port: port) : nil
    }
}

extension RedisReply {
    /// Whether the reply is an error by which a node of a cluster says that it does not have all keys of the command.
    var isRedirect: Bool {
        guard let text = errorText else { return false }
        return text.hasPrefix("MOVED ") || text.hasPrefix("ASK ") || text.hasPrefix("TRYAGAIN")
    }
}
