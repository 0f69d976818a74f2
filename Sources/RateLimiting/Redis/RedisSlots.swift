// Computes the cluster slot of a key, and parses CLUSTER SLOTS, the reply that lists each primary's slots
// (redis.io/docs/reference/cluster-spec).

internal import Sockets

enum RedisSlots {
    static let count = 16_384

    /// Returns the slot of the key. Only the hash tag of the key is hashed: the text between the first "{" and the next
    /// "}". If the hash tag is missing or empty, the whole key is hashed.
    static func slot(ofKey key: String) -> Int {
        let bytes = key.utf8
        if let open = bytes.firstIndex(of: UInt8(ascii: "{")) {
            let inner = bytes[bytes.index(after: open)...]
            if let close = inner.firstIndex(of: UInt8(ascii: "}")), close > inner.startIndex {
                return slot(ofTag: inner[..<close])
            }
        }
        return slot(ofTag: bytes)
    }

    /// Returns the slot of every key with this hash tag.
    static func slot(ofTag tag: some Sequence<UInt8>) -> Int { Int(crc16(tag)) % count }

    /// CRC-16/XMODEM: polynomial 0x1021, initial value 0, not reflected.
    static func crc16(_ bytes: some Sequence<UInt8>) -> UInt16 {
        bytes.reduce(0) { crc, byte in crc << 8 ^ table[Int(UInt8(truncatingIfNeeded: crc >> 8) ^ byte)] }
    }

    private static let table: [UInt16] = (0..<256).map { byte in
        (0..<8).reduce(UInt16(byte) << 8) { crc, _ in crc & 0x8000 == 0 ? crc << 1 : crc << 1 ^ 0x1021 }
    }
}

/// The primaries of a cluster and the slots of each.
struct RedisSlotMap: Hashable, Sendable {
    /// The primaries that have slots. No address occurs twice.
    private(set) var primaries: [SocketAddress] = []
    /// For each slot, the index in `primaries` of the slot's primary; nil if the slot has no known primary.
    private(set) var owners = [UInt16?](repeating: nil, count: RedisSlots.count)

    /// The maximum number of primaries. Each primary takes one connection per event loop.
    static let primariesMax = 256

    /// Parses a reply to CLUSTER SLOTS. Returns nil if the reply is malformed, lists a slot twice, or names more than
    /// `primariesMax` primaries.
    ///
    /// - Parameter askedHost: the host of the node that sent the reply. An empty host in the reply stands for this
    ///   host.
    init?(_ reply: RedisReply, askedHost: String) {
        guard case .array(let ranges) = reply else { return nil }
        for range in ranges {
            guard case .array(let elements) = range, elements.count >= 3,
                case .integer(let first) = elements[0], case .integer(let last) = elements[1],
                case .array(let primary) = elements[2], 0 <= first, first <= last, last < RedisSlots.count,
                case .some(let address) = Self.address(primary, askedHost)
            else { return nil }
            // The address of this primary is unknown, so its slots get no owner. A later MOVED reply may name the
            // address.
            guard let address else { continue }
            guard let index = add(address) else { return nil }
            for slot in Int(first)...Int(last) {
                guard owners[slot] == nil else { return nil }
                owners[slot] = index
            }
        }
    }

    /// Returns the primary of the slot.
    func owner(of slot: Int) -> SocketAddress? {
        owners[slot].map { primaries[Int($0)] }
    }

    private mutating func add(_ address: SocketAddress) -> UInt16? {
        if let index = primaries.firstIndex(of: address) { return UInt16(index) }
        guard primaries.count < Self.primariesMax else { return nil }
        primaries.append(address)
        return UInt16(primaries.count - 1)
    }

    /// Parses a node: the host, the port, the id and, since Redis 7, a list with further addresses. Returns nil if the
    /// node is malformed, and `.some(nil)` if it has no known address.
    private static func address(_ elements: [RedisReply], _ askedHost: String) -> SocketAddress?? {
        guard elements.count >= 2, case .integer(let port) = elements[1], (1...65535).contains(port) else {
            return nil
        }
        switch elements[0] {
        case .null, .string(""):
            return .some(.ip(host: askedHost, port: Int(port)))
        case .string("?"):
            guard elements.count >= 4, case .array(let others) = elements[3],
                let name = others.firstIndex(of: .string("ip")), name + 1 < others.count,
                case .string(let host) = others[name + 1], RedisEndpoint.isHost(host)
            else { return .some(nil) }
            return .some(.ip(host: host, port: Int(port)))
        case .string(let host) where RedisEndpoint.isHost(host):
            return .some(.ip(host: host, port: Int(port)))
        default:
            return nil
        }
    }
}
