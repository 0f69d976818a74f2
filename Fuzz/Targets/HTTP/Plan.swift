// How the fuzzed server handles its requests, from the first byte of an input: its lower six bits, so that a corpus
// file can begin with a printable character; "@" is the plain case.

import HTTP1

struct Plan {
    enum Answer {
        case whole
        /// Whole, and the server asks for close.
        case last
        case streamed
        /// At once, before the content.
        case early
    }

    let answer: Answer
    let limits: Limits
    /// What the route lowers the content to; nil leaves it alone.
    let bodyBytesMax: Int?
    /// The answer's status, fields and content are made from the request, so that they can try to break its form.
    let echoes: Bool
    /// 100 (Continue) is sent where it is due.
    let continues: Bool

    init(_ byte: UInt8) {
        answer = [.whole, .last, .streamed, .early][Int(byte & 3)]
        limits = byte & 4 == 0 ? Limits() : Self.smallLimits
        bodyBytesMax = byte & 8 == 0 ? nil : 9
        echoes = byte & 16 != 0
        continues = byte & 32 != 0
    }

    /// So small that inputs of a few hundred bytes meet every limit.
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

    /// Bytes that may wait for the rest of a line: the longest line of each kind with its CR.
    var bufferedBytesMax: Int {
        max(
            limits.requestLineBytesMax + 1, limits.fieldSectionBytesMax - 1, limits.chunkExtensionBytesMax + 17,
            limits.trailerSectionBytesMax - 1)
    }

    var contentBytesMax: Int { min(limits.bodyBytesMax, bodyBytesMax ?? .max) }
}
