// Every response of the table, as the bytes that a client gets.

import HTTP1
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
