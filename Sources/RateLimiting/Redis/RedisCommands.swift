// Commands as they are sent: each is an array of bulk strings (RESP2, redis.io/docs/reference/protocol-spec). This file
// depends on no particular command.

/// Encoded commands. Redis replies to them in the same order.
struct RedisCommands: Sendable {
    private(set) var bytes: [UInt8] = []
    private(set) var count = 0

    init() {}

    init(_ words: String...) {
        append(words)
    }

    mutating func append(_ words: [String]) {
        begin(words.count)
        for word in words { add(word) }
    }

    mutating func append(_ others: RedisCommands) {
        count += others.count
        bytes += others.bytes
    }

    /// Begins a command of `words` words, which are then added one by one.
    mutating func begin(_ words: Int) {
        if bytes.isEmpty { bytes.reserveCapacity(Self.usualBytes) }
        count += 1
        addLine("*", words)
    }

    mutating func add(_ word: String) {
        addLine("$", word.utf8.count)
        bytes.append(contentsOf: word.utf8)
        addLineEnd()
    }

    /// The size in bytes of one call of the admission script, which is the most common command.
    private static let usualBytes = 384

    private mutating func addLine(_ type: Unicode.Scalar, _ number: Int) {
        bytes.append(UInt8(ascii: type))
        bytes.append(contentsOf: String(number).utf8)
        addLineEnd()
    }

    private mutating func addLineEnd() {
        bytes.append(UInt8(ascii: "\r"))
        bytes.append(UInt8(ascii: "\n"))
    }
}
