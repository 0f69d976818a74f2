// Tests of the checks that run before a handler: content codings, size limits, bearer tokens and entity tags. Also
// tests the values of the RateLimit fields.

import Engine
import GzipCoding
import HTTP1
import HTTPServer
import JourneyModel
import RateLimiting
import Testing

@testable import API

struct GzipTests {
    /// The output of `printf '{"a":1}' | gzip -n`.
    static let member: [UInt8] = [
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xab, 0x56, 0x4a, 0x54, 0xb2, 0x32, 0xac, 0x05,
        0x00, 0xaf, 0xac, 0x1b, 0x56, 0x07, 0x00, 0x00, 0x00,
    ]

    @Test func inflatesAMember() throws {
        #expect(try Gzip.inflate(Self.member, bytesMax: 7) == Array(#"{"a":1}"#.utf8))
    }

    @Test func twoMembersAreOneBody() throws {
        #expect(try Gzip.inflate(Self.member + Self.member, bytesMax: 100) == Array(#"{"a":1}{"a":1}"#.utf8))
    }

    @Test func oneByteOverTheBoundIsTooLong() {
        #expect(throws: GzipError.tooLong) { try Gzip.inflate(Self.member, bytesMax: 6) }
    }

    @Test func everyTruncationIsMalformed() {
        for count in 0..<Self.member.count {
            #expect(throws: GzipError.malformed, "\(count) bytes") {
                try Gzip.inflate(Array(Self.member[..<count]), bytesMax: 100)
            }
        }
    }

    @Test func everyFlippedBitIsRefusedOrHarmless() {
        for index in Self.member.indices {
            for bit in 0..<8 {
                var broken = Self.member
                broken[index] ^= UInt8(1 << bit)
                // A flipped bit in the time or in the operating-system byte of the gzip header does not change the
                // content.
                let inflated = try? Gzip.inflate(broken, bytesMax: 100)
                #expect(inflated == nil || inflated == Array(#"{"a":1}"#.utf8), "byte \(index), bit \(bit)")
            }
        }
    }

    @Test func bytesAfterTheLastMemberAreMalformed() {
        #expect(throws: GzipError.malformed) { try Gzip.inflate(Self.member + [0x00], bytesMax: 100) }
    }
}

struct BodyDecodingTests {
    private func request(_ fields: [(String, String)], body: [UInt8] = Array("{}".utf8)) -> Request {
        Request(
            method: .post, path: "/native/events", fields: Fields(fields), body: body, id: "r1",
            receivedAtMilliseconds: 0)
    }

    @Test(arguments: ["application/json", "application/json; charset=utf-8", "Application/JSON ;charset=UTF-8"])
    func jsonInAnySpelling(_ contentType: String) throws {
        #expect(
            try BodyDecoding.json(request([("Content-Type", contentType)]), bytesMax: 10) == Array("{}".utf8))
    }

    @Test(arguments: [
        [], [("Content-Type", "text/plain")], [("Content-Type", "application/jsonp")], [("Content-Type", "")],
        [("Content-Type", "application/json"), ("Content-Type", "application/json")],
        [("Content-Type", "application/json"), ("Content-Encoding", "br")],
        [("Content-Type", "application/json"), ("Content-Encoding", "gzip, gzip")],
    ])
    func anythingElseIs415(_ fields: [(String, String)]) {
        let refused = #expect(throws: ProblemResponse.self) {
            try BodyDecoding.json(request(fields), bytesMax: 10)
        }
        #expect(refused?.problem.code == .unsupportedMediaType)
    }

    @Test func gzipOverTheLimitIs413() {
        let refused = #expect(throws: ProblemResponse.self) {
            try BodyDecoding.json(
                request(
                    [("Content-Type", "application/json"), ("Content-Encoding", "gzip")], body: GzipTests.member),
                bytesMax: 6)
        }
        #expect(refused?.problem.code == .contentTooLarge)
    }
}

struct BearerTokenTests {
    @Test(arguments: [("Bearer abc.def-_~+/==", "abc.def-_~+/=="), ("bearer x", "x"), ("BEARER   x", "x")])
    func reads(_ value: String, _ token: String) {
        #expect(BearerToken.read(from: Fields([("Authorization", value)])) == token)
    }

    @Test(arguments: ["", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearer a\u{e9}", "Bearer a,b", "abc"])
    func refuses(_ value: String) {
        #expect(BearerToken.read(from: Fields([("Authorization", value)])) == nil)
    }

    /// `candidate` finds every token that `read` accepts, but does not check the token's characters.
    @Test(arguments: [("Bearer abc.def-_~+/==", "abc.def-_~+/=="), ("bearer x", "x"), ("Bearer a b", "a b")])
    func findsACandidate(_ value: String, _ token: String) {
        let found = Array(value.utf8).withUnsafeBytes { BearerToken.candidate(in: $0).map { Array($0) } }
        #expect(found == Array(token.utf8))
    }

    @Test(arguments: ["", "Bearer", "Bearer ", "Basic abc", "Beare abc"])
    func findsNoCandidate(_ value: String) {
        #expect(Array(value.utf8).withUnsafeBytes { BearerToken.candidate(in: $0) == nil })
    }

    @Test func twoCredentialsAreNone() {
        #expect(BearerToken.read(from: Fields([("Authorization", "Bearer a"), ("Authorization", "Bearer a")])) == nil)
    }
}

struct EntityTagTests {
    @Test(arguments: ["\"v1\"", "W/\"v1\"", "*", "\"v0\", \"v1\"", "\"v0\",W/\"v1\""])
    func matches(_ value: String) {
        #expect(EntityTag.matches([value], "\"v1\""))
    }

    @Test(arguments: ["", "v1", "\"v2\"", "\"v1", "X/\"v1\""])
    func doesNotMatch(_ value: String) {
        #expect(!EntityTag.matches([value], "\"v1\""))
    }
}

struct RateLimitValuesTests {
    private func ingested(_ limitClass: RateLimitClass, limit: Int, remaining: Int, reset: Int64) -> Ingested {
        Ingested(
            outcome: .rateLimited, limitClass: limitClass,
            quota: Quota(limit: limit, windowSeconds: 60, remaining: remaining, resetMilliseconds: reset))
    }

    @Test func policyNamesEachLimitThatIsOn() {
        #expect(RateLimitValues.policy(RateLimits()) == #""session";q=60;w=60, "presession";q=30;w=60"#)
        #expect(RateLimitValues.policy(RateLimits(sessionEvents: 0)) == #""presession";q=30;w=60"#)
        #expect(RateLimitValues.policy(RateLimits(sessionEvents: 0, preSessionEvents: 0)) == nil)
    }

    @Test func standingRoundsSecondsUp() {
        #expect(
            RateLimitValues.rateLimit([ingested(.sessionEvents, limit: 60, remaining: 3, reset: 1001)])
                == #""session";r=3;t=2"#)
        #expect(RateLimitValues.rateLimit([ingested(.sessionEvents, limit: 0, remaining: 0, reset: 0)]) == nil)
    }

    @Test(arguments: [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_999, 60), (9_999_999, 3600)] as [(Int64, Int)])
    func retryAfterIsWholeSecondsWithinBounds(_ reset: Int64, _ seconds: Int) {
        let quota = Quota(limit: 60, windowSeconds: 60, remaining: 0, resetMilliseconds: reset)
        #expect(RateLimitValues.retryAfterSeconds(quota) == seconds)
    }
}
