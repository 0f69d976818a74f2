// Tests with randomly damaged requests, made from a fixed seed. Outcomes and responses must not depend on how an input
// is split, and nothing may follow a rejection.
//
// Each accepted request is also rewritten in its plainest form, as a proxy would forward it. The parser must read this
// form as the same request.

import HTTP1
import TestSupport
import Testing

@Suite struct MutationTests {
    /// The seed of all inputs. A failure reports a block and a round, which determine the input together with the seed.
    static let seed: UInt64 = 0x9112_9110

    @Test(arguments: 0..<20) func anySplitGivesTheSameEvents(_ block: Int) {
        var random = SeededRandom(seed: Self.seed &+ UInt64(block) &* 1_000_003)
        for round in 0..<1000 {
            let input = mutatedInput(&random)
            let whole = outcome(of: [input[...]])
            let cut = outcome(of: randomPieces(input, &random))
            let single = outcome(of: input.indices.map { input[$0...$0] })
            let place: Comment = "seed \(Self.seed), block \(block), round \(round)"
            guard whole == cut, whole == single else {
                Issue.record("The cuts matter: \(place) \(String(decoding: input, as: UTF8.self).debugDescription)")
                return
            }
            if let last = whole.outcomes.dropLast().first(where: { !$0.goesOn }) {
                Issue.record("Something follows \(last): \(place)")
                return
            }
            checkRewritten(whole, place)
        }
    }

    private struct Seen: Equatable {
        var outcomes: [Outcome]
        var output: [UInt8]
        var heads: [RequestHead]
        var contents: [[UInt8]]
        var lastEvent: ServerConnection.Event
    }

    private func outcome(of pieces: [ArraySlice<UInt8>]) -> Seen {
        var limits = Limits()
        limits.requestLineBytesMax = 64
        limits.fieldSectionBytesMax = 300
        limits.fieldCountMax = 8
        limits.bodyBytesMax = 64
        limits.chunkExtensionBytesMax = 16
        limits.trailerSectionBytesMax = 48
        limits.trailerCountMax = 2
        var client = Client(limits: limits)
        client.run(pieces)
        return Seen(
            outcomes: client.outcomes, output: client.output, heads: client.heads, contents: client.contents,
            lastEvent: client.lastEvent)
    }

    private func checkRewritten(_ seen: Seen, _ place: Comment) {
        for (head, content) in zip(seen.heads, seen.contents) {
            let text = rewritten(head, content)
            var client = Client()
            client.run([text[...]])
            guard let again = client.heads.first else {
                Issue.record("Accepted once, then refused: \(place)")
                return
            }
            #expect(again.method == head.method && again.path == head.path && again.query == head.query, place)
            #expect(again.keepAlive == head.keepAlive && again.authority == head.authority, place)
            #expect(client.contents.first == content, place)
            #expect(client.heads.count == 1, "A second request came out of one: \(place)")
        }
    }

    /// Returns the request as a proxy would forward it: origin-form, one Host field, content with Content-Length.
    private func rewritten(_ head: RequestHead, _ content: [UInt8]) -> [UInt8] {
        let safe = bytes("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/*")
        var target = ""
        for byte in head.path.utf8 {
            let hex = String(byte, radix: 16)
            target += safe.contains(byte) ? String(UnicodeScalar(byte)) : "%" + (hex.count < 2 ? "0" : "") + hex
        }
        if let query = head.query { target += "?" + query }
        var text = "\(head.method.rawValue) \(target) HTTP/1.\(head.minorVersion)\r\n"
        if !head.authority.isEmpty { text += "Host: \(head.authority)\r\n" }
        for value in head.fields.values("Connection") { text += "Connection: \(value)\r\n" }
        return Array((text + "Content-Length: \(content.count)\r\n\r\n").utf8) + content
    }
}

// MARK: - Inputs

/// Byte sequences that often break parsers.
private let dictionary: [[UInt8]] = [
    "\r", "\n", "\r\n", "\r\n\r\n", " ", "\t", ":", ",", ";", "\u{00}", "\u{0B}", "\u{7F}", "\u{FF}", "0", "1", "5",
    "-", "+", "%", "%2F", "%2e", "%00", "/", "..", "?", "#", "*", "chunked", "Chunked", "gzip", "close", "\"",
    "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Host: b\r\n", "Connection: close\r\n", "HTTP/1.0",
    "HTTP/2.0", "0\r\n\r\n", "5\r\nhello\r\n", "Expect: 100-continue\r\n", "http://b", "GET ", "GET / HTTP/1.1\r\n",
    "ffffffffffffffff", "18446744073709551617", ";a=b", "X: y\r\n", " chunked",
].map(bytes)

private let seeds: [[UInt8]] =
    ConformanceTests.cases.map(\.input).filter { $0.count < 400 } + [
        bytes(
            get("/1") + post("Content-Length: 5\r\n", "hello") + chunked("5\r\nhello\r\n0\r\nX: y\r\n\r\n") + get("/")),
        bytes(chunked("1;a=\"b\"\r\na\r\n2\r\nbc\r\n0\r\n\r\n") + get("/a%20b?c")),
    ]

private func mutatedInput(_ random: inout SeededRandom) -> [UInt8] {
    var input = seeds.randomElement(using: &random) ?? []
    if Bool.random(using: &random) { input += seeds.randomElement(using: &random) ?? [] }
    for _ in 0..<Int.random(in: 0...4, using: &random) where !input.isEmpty {
        let place = Int.random(in: 0..<input.count, using: &random)
        switch Int.random(in: 0..<6, using: &random) {
        case 0: input[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 1: input[place] = UInt8.random(in: .min ... .max, using: &random)
        case 2: input.remove(at: place)
        case 3: input.removeSubrange(place..<min(input.count, place + Int.random(in: 1...20, using: &random)))
        case 4: input.insert(contentsOf: input[place..<min(input.count, place + 12)], at: place)
        default: input.insert(contentsOf: dictionary.randomElement(using: &random) ?? [], at: place)
        }
    }
    return input
}

private func randomPieces(_ input: [UInt8], _ random: inout SeededRandom) -> [ArraySlice<UInt8>] {
    var pieces: [ArraySlice<UInt8>] = []
    var start = 0
    while start < input.count {
        let end = min(input.count, start + Int.random(in: 1...40, using: &random))
        pieces.append(input[start..<end])
        start = end
    }
    return pieces
}
