// Compares every response of the table with the bytes that the client receives.

import HTTP1
import TestSupport
import Testing

@Suite struct ResponseTests {
    @Test(arguments: ResponseCases.all) func bytesOnTheWire(_ aCase: ResponseCase) {
        var connection = ServerConnection()
        var output: [UInt8] = []
        connection.receive(aCase.request.utf8)
        while connection.phase != .response { _ = connection.nextEvent() }
        switch aCase.response {
        case .whole(let status, let fields, let body, let close):
            connection.encode(
                status: Status(status), fields: Fields(fields), body: Array(body.utf8), dateText: dateText,
                close: close, into: &output)
        case .stream(let status, let fields, let chunks):
            connection.encodeHead(
                status: Status(status), fields: Fields(fields), dateText: dateText, into: &output)
            for chunk in chunks { connection.encodeChunk(Array(chunk.utf8), into: &output) }
            connection.encodeEnd(into: &output)
        }
        #expect(String(decoding: output, as: UTF8.self) == aCase.expected)
        #expect(connection.mustClose == aCase.expected.contains("Connection: close"))
        #expect(connection.phase == (connection.mustClose ? .closed : .idle))
    }

    /// Fields that contain line breaks must not add lines to the head.
    @Test func noFieldEndsALineEarly() {
        let parts = ["a", "\r", "\n", "\r\n", "\r\n\r\n", "\u{00}", ":", " ", "\u{85}", "\u{2028}", "\u{E9}", "X: y"]
        var random = SeededRandom(seed: MutationTests.seed)
        for _ in 0..<2000 {
            let fields = (0..<4).map { _ in
                let name = (0..<2).map { _ in parts.randomElement(using: &random) ?? "" }.joined()
                return (name, (0..<4).map { _ in parts.randomElement(using: &random) ?? "" }.joined())
            }
            var connection = ServerConnection()
            var output: [UInt8] = []
            connection.encode(status: .ok, fields: Fields(fields), dateText: dateText, into: &output)
            let kept = fields.filter { $0.0 == "aa" }.count
            let lines = output.split(separator: 0x0A, omittingEmptySubsequences: false)
            // `lines` has six elements besides the kept fields: the status line, Date, Content-Length, Connection, the
            // empty line, and the empty rest after the last line feed.
            #expect(lines.count == kept + 6, "\(fields)")
            #expect(lines.dropLast().allSatisfy { $0.last == 0x0D && $0.dropLast().allSatisfy { $0 != 0x0D } })
            #expect(!output.contains(0), "\(fields)")
        }
    }

    @Test func aHandlersCloseReachesTheClientWhenDraining() {
        var connection = ServerConnection()
        var output: [UInt8] = []
        connection.receive((get("/1") + get("/2")).utf8)
        _ = connection.nextEvent()
        _ = connection.nextEvent()
        connection.encode(status: .ok, dateText: "", close: true, into: &output)
        #expect(connection.nextEvent() == .closed)
        #expect(String(decoding: output, as: UTF8.self).hasSuffix("Connection: close\r\n\r\n"))
    }

    @Test func aDateIsLeftOutWhenThereIsNoClock() {
        var connection = ServerConnection()
        var output: [UInt8] = []
        connection.encode(status: .serviceUnavailable, dateText: "", into: &output)
        #expect(
            String(decoding: output, as: UTF8.self)
                == "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    }
}
