// A loopback server that misbehaves as real servers do: it stalls, sends wrong data, disconnects, or sends an endless
// response. Each test chooses the response to each request.

import Foundation
import Outbound
import Sockets
import Synchronization
import TestSupport

struct ReceivedRequest: Sendable {
    /// The request line and the fields, as received.
    var head: String
    var body: [UInt8]

    var path: String { String(head.split(separator: " ")[1]) }
    var text: String { String(decoding: body, as: UTF8.self) }

    func field(_ name: String) -> String? {
        for line in head.components(separatedBy: "\r\n").dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2, parts[0].lowercased() == name.lowercased() {
                return parts[1].trimmingCharacters(in: .whitespaces)
            }
        }
        return nil
    }

    /// The members of an application/x-www-form-urlencoded body.
    var form: [String: String] {
        let pairs = text.split(separator: "&").map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
        return Dictionary(
            pairs.map { ($0[0], ($0.count > 1 ? $0[1] : "").removingPercentEncoding ?? "") }, uniquingKeysWith: { $1 })
    }
}

enum Behaviour: Sendable {
    case answer(_ status: Int, _ body: String = "", fields: String = "")
    /// Sends these bytes, then ends the stream.
    case bytes([UInt8])
    /// Sends these bytes, then nothing until the client disconnects.
    case stall(after: String = "")
    /// Sends chunks until the client disconnects.
    case endless
    /// Every 20 ms, sends one field line (`inHead`) or one byte of the body.
    case drip(inHead: Bool)

    static func text(_ text: String) -> Behaviour { .bytes(Array(text.utf8)) }
}

final class LoopbackServer: ConnectionHandler, Sendable {
    /// The rule that chooses the behaviour for each request.
    struct Script: Sendable {
        fileprivate let behaviour: @Sendable (_ request: ReceivedRequest, _ number: Int) -> Behaviour

        static func each(
            _ behaviour: @escaping @Sendable (_ request: ReceivedRequest, _ number: Int) -> Behaviour
        ) -> Script {
            Script(behaviour: behaviour)
        }

        static func always(_ behaviour: Behaviour) -> Script {
            Script { _, _ in behaviour }
        }
    }

    private struct NoAddress: Error {}

    private let script: Script
    private let received = Mutex<[ReceivedRequest]>([])

    private init(_ script: Script) {
        self.script = script
    }

    static func with(
        _ script: Script,
        _ body: (_ server: LoopbackServer, _ url: URL, _ http: OutgoingHTTP) async throws -> Void
    ) async throws {
        let loops = try EventLoopGroup(count: 1)
        let server = LoopbackServer(script)
        let listening = try await ListenerGroup.listen(
            on: .ip(host: "127.0.0.1", port: 0), loops: loops, handler: server)
        guard case .ip(_, let port) = listening.address, let url = URL(string: "http://127.0.0.1:\(port)/start") else {
            throw NoAddress()
        }
        let http = OutgoingHTTP()
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(server, url, http))
        } catch {
            result = .failure(error)
        }
        http.close()
        await listening.drain(until: .now)
        await loops.shutdown()
        try result.get()
    }

    /// The received requests, in the order in which their last bytes arrived.
    var requests: [ReceivedRequest] { received.withLock { $0 } }

    func waitForRequests(_ count: Int) async {
        while requests.count < count { try? await Task.sleep(for: .milliseconds(5)) }
    }

    // MARK: Serving

    func serve(_ connection: Connection) async {
        while let request = await Self.request(from: connection) {
            let number = received.withLock { received in
                received.append(request)
                return received.count
            }
            guard (try? await behave(script.behaviour(request, number), connection)) == true else { return }
        }
    }

    /// Returns true if the connection can take another request.
    private func behave(_ behaviour: Behaviour, _ connection: Connection) async throws -> Bool {
        switch behaviour {
        case .answer(let status, let body, let fields):
            try await connection.write(
                Array("HTTP/1.1 \(status) X\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8))
            return true
        case .bytes(let bytes):
            try await connection.write(bytes)
            return false
        case .stall(let text):
            if !text.isEmpty { try await connection.write(Array(text.utf8)) }
            while try await !connection.read(until: .inSeconds(30)).isEmpty {}
            return false
        case .endless:
            try await connection.write(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8))
            let chunk = Array("1000\r\n".utf8) + [UInt8](repeating: 0x20, count: 4096) + Array("\r\n".utf8)
            while true { try await connection.write(chunk, until: .inSeconds(30)) }
        case .drip(let inHead):
            try await connection.write(
                Array("HTTP/1.1 200 OK\r\n\(inHead ? "" : "Content-Length: 5000\r\n\r\n")".utf8))
            for number in 0... {
                try await connection.write(Array((inHead ? "X-\(number): x\r\n" : " ").utf8))
                try await Task.sleep(for: .milliseconds(20))
            }
            return false
        }
    }

    private static func request(from connection: Connection) async -> ReceivedRequest? {
        var bytes: [UInt8] = []
        func more() async -> Bool {
            guard let read = try? await connection.read(until: .inSeconds(30)), !read.isEmpty else { return false }
            bytes += read
            return true
        }
        while true {
            if let end = Data(bytes).range(of: Data("\r\n\r\n".utf8)) {
                var request = ReceivedRequest(head: String(decoding: bytes[..<end.lowerBound], as: UTF8.self), body: [])
                let length = request.field("Content-Length").flatMap { Int($0) } ?? 0
                while bytes.count < end.upperBound + length { guard await more() else { return nil } }
                request.body = Array(bytes[end.upperBound...])
                return request
            }
            guard await more() else { return nil }
        }
    }
}

/// Returns a URL of 127.0.0.1 with a port that no process listens on.
func deadURL() async throws -> URL {
    let loops = try EventLoopGroup(count: 1)
    struct Nothing: ConnectionHandler {
        func serve(_ connection: Connection) async {}
    }
    let listening = try await ListenerGroup.listen(
        on: .ip(host: "127.0.0.1", port: 0), loops: loops, handler: Nothing())
    await listening.drain(until: .now)
    await loops.shutdown()
    guard case .ip(_, let port) = listening.address, let url = URL(string: "http://127.0.0.1:\(port)/") else {
        throw CancellationError()
    }
    return url
}
