// Tests the result of `dwell healthcheck` for a server that is alive, is not ready, is silent, closes the connection,
// or does not exist. The tests use real sockets on loopback.

import Foundation
import Sockets
import Testing

@testable import App

@Suite struct HealthQuestionTests {
    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200), ("HTTP/1.1 503 Service Unavailable\r\n\r\n", 503),
        ("hello", nil), ("", nil),
    ])
    func theStatusOfTheAnswer(answer: String, status: Int?) async throws {
        let server = try OneAnswerServer()
        async let asked = server.answerOne(Array(answer.utf8))
        let question = try #require(HealthRequest(url: "http://127.0.0.1:\(server.port)"))
        #expect(try await question.ask(within: .inSeconds(10)) == status)
        let request = await asked
        #expect(request == "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:\(server.port)\r\nConnection: close\r\n\r\n")
    }

    @Test func aServerThatSaysNothingIsGivenUpAtTheDeadline() async throws {
        let server = try OneAnswerServer()  // the kernel accepts the connection, but nobody answers
        let question = try #require(HealthRequest(url: "http://127.0.0.1:\(server.port)"))
        await #expect(throws: TransportError.timedOut) { try await question.ask(within: .inMilliseconds(100)) }
    }

    @Test func nobodyThere() async throws {
        let port = try OneAnswerServer().port  // free again once the server is released
        let question = try #require(HealthRequest(url: "http://127.0.0.1:\(port)"))
        await #expect(throws: TransportError.self) { try await question.ask(within: .inSeconds(10)) }
    }
}

/// A server that answers one connection on a free loopback port. It makes blocking calls on its own thread.
final class OneAnswerServer: Sendable {
    let port: Int
    private let descriptor: Int32

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        try #require(descriptor >= 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = descriptor
        let results = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                [bind(listener, $0, length), listen(listener, 4), getsockname(listener, $0, &length)]
            }
        }
        try #require(results == [0, 0, 0])
        port = Int(UInt16(bigEndian: address.sin_port))
    }

    deinit { close(descriptor) }

    /// Answers one connection. Returns the request that was received.
    func answerOne(_ answer: [UInt8]) async -> String {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { [descriptor] in
                let connection = accept(descriptor, nil, nil)
                var request: [UInt8] = []
                var buffer = [UInt8](repeating: 0, count: 1024)
                while !request.ends(with: "\r\n\r\n".utf8) {
                    let count = read(connection, &buffer, buffer.count)
                    guard count > 0 else { break }
                    request += buffer.prefix(count)
                }
                _ = answer.withUnsafeBytes { write(connection, $0.baseAddress, $0.count) }
                close(connection)
                continuation.resume(returning: String(decoding: request, as: UTF8.self))
            }
        }
    }
}

extension [UInt8] {
    func ends(with suffix: some Collection<UInt8>) -> Bool {
        self.suffix(suffix.count).elementsEqual(suffix)
    }
}
