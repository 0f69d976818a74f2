// Commands on the wire: an array of bulk strings each (RESP2, redis.io/docs/reference/protocol-spec). Knows no
// command by name.

/// Commands, ready to be written, in the order in which their replies will come.
struct RedisCommands: Sendable {
    private(set) var bytes: [UInt8] = []
    private(set) var count = 0

    init() {}

    init(_ words: String...) {
        append(words)
    }

    mutating func append(_ words: [String]) {
        count += 1
        appendLine("*", words.count)
        for word in words {
            appendLine("$", word.utf8.count)
            bytes.append(contentsOf: word.utf8)
            bytes.append(contentsOf: Self.lineEnd)
        }
    }

    private static let lineEnd: [UInt8] = [0x0d, 0x0a]

    private mutating func appendLine(_ type: Unicode.Scalar, _ number: Int) {
        bytes.append(UInt8(ascii: type))
        bytes.append(contentsOf: String(number).utf8)
        bytes.append(contentsOf: Self.lineEnd)
    }
}
