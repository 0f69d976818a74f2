// Tests the encoding of commands and the decoding of replies (RESP2). Replies arrive whole, split at every byte, or
// damaged.

import JourneyModel
import TestSupport
import Testing

@testable import RateLimiting

struct RedisCodecTests {
    private let stream =
        "+OK\r\n-ERR no\r\n:-42\r\n$5\r\nhe\r\no\r\n$-1\r\n*-1\r\n$0\r\n\r\n*3\r\n:1\r\n*1\r\n$1\r\na\r\n:2\r\n"
    private let replies: [RedisReply] = [
        .status("OK"), .error("ERR no"), .integer(-42), .string("he\r\no"), .null, .null, .string(""),
        .array([.integer(1), .array([.string("a")]), .integer(2)]),
    ]

    private func feed(_ reader: RedisReplyReader, _ bytes: ArraySlice<UInt8>) throws -> [RedisReply] {
        try bytes.withUnsafeBytes { try reader.feed($0) }
    }

    @Test func commandIsAnArrayOfBulkStringsCountedInBytes() {
        let commands = RedisCommands("SET", "clé", "")
        #expect(String(decoding: commands.bytes, as: UTF8.self) == "*3\r\n$3\r\nSET\r\n$4\r\nclé\r\n$0\r\n\r\n")
        #expect(commands.count == 1)
    }

    @Test func everyKindOfReplyIsRead() throws {
        #expect(try feed(RedisReplyReader(), Array(stream.utf8)[...]) == replies)
    }

    @Test func cutAtEveryByteTheRepliesAreTheSame() throws {
        let bytes = Array(stream.utf8)
        for cut in 0...bytes.count {
            let reader = try RedisReplyReader()
            let first = try feed(reader, bytes[..<cut])
            #expect(try first + feed(reader, bytes[cut...]) == replies, "cut at \(cut)")
        }
    }

    @Test(arguments: [
        "HTTP/1.1 400 Bad Request\r\n", "\0\0\0\0", "*2000000000\r\n", "*-7\r\n", "*65\r\n", "$-7\r\n", "*x\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
    ]) func damagedStreamIsRefused(text: String) throws {
        let reader = try RedisReplyReader()
        #expect(throws: RedisProtocolError.self) { try feed(reader, Array(text.utf8)[...]) }
        #expect(throws: RedisProtocolError.self) { try feed(reader, Array("+OK\r\n".utf8)[...]) }
    }

    @Test func replyWithoutAnEndIsRefusedBeforeItFillsTheMemory() throws {
        let reader = try RedisReplyReader()
        _ = try feed(reader, Array("$1000000000\r\n".utf8)[...])
        let piece = [UInt8](repeating: 0x61, count: 16 * 1024)
        #expect(throws: RedisProtocolError.self) { for _ in 0..<10 { _ = try feed(reader, piece[...]) } }
    }

    /// Each damaged stream must be read or rejected, without a leak. Only the address sanitizer can detect a leak.
    @Test func mutatedStreamIsReadOrRefused() throws {
        var random = SeededRandom(seed: 7)
        for _ in 0..<20_000 {
            var bytes = Array(stream.utf8)
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: bytes.indices, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[place] = Array("*$:+-\r\n0123a".utf8).randomElement(using: &random) ?? 0
                case 1: bytes.remove(at: place)
                default: bytes.insert(bytes[place], at: place)
                }
            }
            let cut = Int.random(in: 0...bytes.count, using: &random)
            let reader = try RedisReplyReader()
            do {
                for part in [bytes[..<cut], bytes[cut...]] { _ = try feed(reader, part) }
            } catch is RedisProtocolError {
                #expect(throws: RedisProtocolError.self) { try feed(reader, Array("+OK\r\n".utf8)[...]) }
            }
        }
    }

    /// The stream ends inside a reply, which must be freed with the reader. Only the address sanitizer can detect a
    /// leak.
    @Test func unfinishedReplyIsFreed() throws {
        _ = try feed(RedisReplyReader(), Array("*3\r\n:1\r\n*2\r\n$1\r\na\r\n".utf8)[...])
    }

    private static let good: [RedisReply] = [
        .integer(0), .integer(59), .integer(60_000), .integer(1_800_000_000_000), .integer(7),
    ]

    @Test func scriptsAnswerIsRead() {
        let answer = AdmissionScript.answer(.array(Self.good), to: 7, .sessionEvents, RateLimits())
        #expect(
            answer?.decision
                == AdmissionDecision(
                    verdict: .admitted,
                    quota: Quota(limit: 60, windowSeconds: 60, remaining: 59, resetMilliseconds: 60_000)))
        #expect(answer?.decidedAt == 1_800_000_000_000)
    }

    /// Another process may have other limits, under which charges expire later than under this process's limits.
    @Test func resetOfChargesUnderOtherLimitsIsRead() {
        let reply: [RedisReply] = [.integer(2), .integer(0), .integer(11_000_000)] + Self.good.dropFirst(3)
        let answer = AdmissionScript.answer(.array(reply), to: 7, .sessionEvents, RateLimits())
        #expect(answer?.decision.verdict == .refused)
        #expect(answer?.decision.quota.resetMilliseconds == 11_000_000)
    }

    @Test(
        arguments: [
            .status("OK"), .null, .array([]), .array(Array(good.dropLast())), .array(good + [.integer(1)]),
            .array([.integer(3)] + good.dropFirst()), .array([.string("0")] + good.dropFirst()),
            .array([.integer(0), .integer(61)] + good.dropFirst(2)),
            .array([.integer(0), .integer(-1)] + good.dropFirst(2)),
            .array([.integer(0), .integer(59), .integer(-1), .integer(0), .integer(7)]),
            .array([.integer(0), .integer(59), .integer(.max), .integer(0), .integer(7)]),
            // The reply to the previous call, which has number 6.
            .array(good.dropLast() + [.integer(6)]),
        ] as [RedisReply]) func whatTheScriptCannotHaveAnsweredIsRefused(reply: RedisReply)
    {
        #expect(AdmissionScript.answer(reply, to: 7, .sessionEvents, RateLimits()) == nil)
    }

    /// A Redis cluster chooses a key's slot by the text between the first "{" and the next "}", if that text is not
    /// empty.
    @Test(arguments: ["ann", "}{", "{a}", "a}b", "ü", " ", "%"]) func keysOfADriverShareOneSlot(driver: String) {
        let keys = RateLimitClass.allCases.flatMap { limitClass in
            let claim = AdmissionClaim(driver: DriverID(driver), limitClass: limitClass, idempotencyKey: "k}{1")
            return [RedisKeys.window(of: claim), RedisKeys.stored(claim)]
        }
        let tags = Set(keys.map { $0.drop { $0 != "{" }.dropFirst().prefix { $0 != "}" } })
        // Each class of limits has its own window key. All classes share one Redis key for the idempotency keys.
        #expect(Set(keys).count == RateLimitClass.allCases.count + 1)
        #expect(tags.count == 1)
        #expect(tags.first?.isEmpty == false)
    }

    @Test func driversThatDifferHaveKeysThatDiffer() {
        let drivers = ["a", "a}", "a%7d", "{a", "A"]
        let keys = drivers.map {
            RedisKeys.window(
                of: AdmissionClaim(driver: DriverID($0), limitClass: .sessionEvents, idempotencyKey: "k"))
        }
        #expect(Set(keys).count == drivers.count)
    }
}
