// How the fuzzed server handles its requests. Only the lower six bits of an input's first byte select the plan, so this
// byte can be printable. "@" selects the simplest plan.

import HTTP1

struct Plan {
    enum Answer {
        case whole
        /// A whole response after which the server closes the connection.
        case last
        case streamed
        /// A response that is sent before the content has arrived.
        case early
    }

    let answer: Answer
    let limits: Limits
    /// The route's own limit on the content.
    let bodyBytesMax: Int?
    /// Whether status, fields and content of the response come from the request. An input can then try to break the
    /// response.
    let echoes: Bool
    /// Whether 100 (Continue) is sent when it is due.
    let continues: Bool

    init(_ byte: UInt8) {
        answer = [.whole, .last, .streamed, .early][Int(byte & 3)]
        limits = byte & 4 == 0 ? Limits() : Self.smallLimits
        bodyBytesMax = byte & 8 == 0 ? nil : 9
        echoes = byte & 16 != 0
        continues = byte & 32 != 0
    }

    /// Limits so small that an input of a few hundred bytes can exceed each of them.
    private static let smallLimits: Limits = {
        var limits = Limits()
        limits.requestLineBytesMax = 64
        limits.methodBytesMax = 8
        limits.emptyLinesBeforeRequestMax = 2
        limits.fieldSectionBytesMax = 200
        limits.fieldCountMax = 6
        limits.bodyBytesMax = 48
        limits.chunkExtensionBytesMax = 16
        limits.trailerSectionBytesMax = 40
        limits.trailerCountMax = 2
        return limits
    }()

    /// The maximum number of bytes that a connection may buffer while it waits for the LF of a line. This is the
    /// longest allowed line of any kind, including its CR.
    var bufferedBytesMax: Int {
        max(
            limits.requestLineBytesMax + 1, limits.fieldSectionBytesMax - 1, limits.chunkExtensionBytesMax + 17,
            limits.trailerSectionBytesMax - 1)
    }

    var contentBytesMax: Int { min(limits.bodyBytesMax, bodyBytesMax ?? .max) }
}
