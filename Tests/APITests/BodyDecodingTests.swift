// Tests the decoding of a request body: the checks of its media type, its content coding and its size.

import GzipCoding
import HTTP1
import HTTPServer
import JourneyModel
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
                // A changed bit in the gzip header, for example in its time, may leave the content unchanged.
                let inflated = try? Gzip.inflate(broken, bytesMax: 100)
                #expect(inflated == nil || inflated == Array(#"{"a":1}"#.utf8), "byte \(index), bit \(bit)")
            }
        }
    }

    @Test func `the decompressed bytes of a refused body are counted too`() {
        var byteCount = 0
        let truncated = try? Gzip.inflate(Array(Self.member.dropLast()), bytesMax: 100, byteCount: &byteCount)
        #expect(truncated == nil && byteCount == 7)
        let tooLong = try? Gzip.inflate(Self.member, bytesMax: 6, byteCount: &byteCount)
        #expect(tooLong == nil && byteCount == 6)
    }

    @Test func bytesAfterTheLastMemberAreMalformed() {
        #expect(throws: GzipError.malformed) { try Gzip.inflate(Self.member + [0x00], bytesMax: 100) }
    }
}

struct BodyDecodingTests {
    private func request(_ fields: [(String, String)], body: [UInt8] = Array("{}".utf8), bodyBytesMax: Int = 10)
        -> Request
    {
        Request(
            method: .post, path: "/native/events", fields: Fields(fields), body: body,
            bodyBytesMax: bodyBytesMax, id: "r1",
            receivedAtMilliseconds: 0)
    }

    @Test(arguments: ["application/json", "application/json; charset=utf-8", "Application/JSON ;charset=UTF-8"])
    func jsonInAnySpelling(_ contentType: String) throws {
        #expect(
            try BodyDecoding.json(request([("Content-Type", contentType)])) == Array("{}".utf8))
    }

    @Test(arguments: [
        [], [("Content-Type", "text/plain")], [("Content-Type", "application/jsonp")], [("Content-Type", "")],
        [("Content-Type", "application/json"), ("Content-Type", "application/json")],
        [("Content-Type", "application/json"), ("Content-Encoding", "br")],
        [("Content-Type", "application/json"), ("Content-Encoding", "gzip, gzip")],
    ])
    func anythingElseIs415(_ fields: [(String, String)]) {
        let refused = #expect(throws: ProblemResponse.self) {
            try BodyDecoding.json(request(fields))
        }
        #expect(refused?.problem.code == .unsupportedMediaType)
    }

    @Test(arguments: [(Method.post, "Accept"), (.put, "Accept"), (.patch, "Accept-Patch")])
    func aRefusalOfTheMediaTypeNamesTheAcceptedOne(_ method: Method, _ field: String) {
        var text = request([("Content-Type", "text/plain")])
        text.method = method
        let sent = text
        let refused = #expect(throws: ProblemResponse.self) {
            try BodyDecoding.json(sent)
        }
        #expect(refused?.fields.first(field) == "application/json")
    }

    @Test func gzipOverTheLimitIs413() {
        let refused = #expect(throws: ProblemResponse.self) {
            try BodyDecoding.json(
                request(
                    [("Content-Type", "application/json"), ("Content-Encoding", "gzip")], body: GzipTests.member,
                    bodyBytesMax: 6))
        }
        #expect(refused?.problem.code == .contentTooLarge)
    }
}
