// Shared by the tests of this directory: a server with test routes, and a client that sends raw bytes. The client
// parses responses as the RFCs require.

import Logging
import Synchronization

@testable import HTTP1
@testable import HTTPServer
@testable import Sockets

/// A response as received.
struct Answer: Equatable {
    var status: Int
    var fields: Fields
    var body: [UInt8]

    var text: String { String(decoding: body, as: UTF8.self) }
}

struct UnexpectedEnd: Error {}

/// One connection to the server under test. Every wait ends after five seconds at the latest.
final class RawClient {
    let connection: Connection
    private var received: [UInt8] = []
    private static let patience = 5_000

    init(_ address: SocketAddress, _ loops: EventLoopGroup) async throws {
        connection = try await Connection.connect(
            to: address, on: loops.next(), until: .inMilliseconds(RawClient.patience))
    }

    func send(_ text: String) async throws {
        try await connection.write(Array(text.utf8), until: .inMilliseconds(RawClient.patience))
    }

    /// Reads more bytes. Returns false at the end of the stream.
    @discardableResult
    private func readMore() async throws -> Bool {
        let bytes = try await connection.read(until: .inMilliseconds(RawClient.patience))
        received += bytes
        return !bytes.isEmpty
    }

    private func line() async throws -> String {
        while true {
            if let end = received.firstIndex(of: 10) {
                let line = String(decoding: received[..<end], as: UTF8.self)
                received.removeFirst(end + 1)
                return line.hasSuffix("\r") ? String(line.dropLast()) : line
            }
            if try await !readMore() { throw UnexpectedEnd() }
        }
    }

    private func bytes(_ count: Int) async throws -> [UInt8] {
        while received.count < count { if try await !readMore() { throw UnexpectedEnd() } }
        defer { received.removeFirst(count) }
        return Array(received[..<count])
    }

    /// Reads the next response, which may be an interim response. Set `toHead` for the response to a HEAD request,
    /// because it has no content.
    func answer(toHead: Bool = false) async throws -> Answer {
        let status = Int(try await line().split(separator: " ")[1]) ?? 0
        var answer = Answer(status: status, fields: Fields(), body: [])
        while true {
            let line = try await line()
            if line.isEmpty { break }
            let parts = line.split(separator: ":", maxSplits: 1)
            answer.fields.append(String(parts[0]), parts[1].drop { $0 == " " }.description)
        }
        if toHead || status < 200 || status == 204 || status == 304 { return answer }
        if let length = answer.fields.first("Content-Length").flatMap({ Int($0) }) {
            answer.body = try await bytes(length)
        } else if answer.fields.first("Transfer-Encoding") == "chunked" {
            while let size = Int(try await line(), radix: 16), size > 0 {
                answer.body += try await bytes(size)
                _ = try await line()
            }
            _ = try await line()
        } else {
            while try await readMore() {}
            answer.body = received
            received = []
        }
        return answer
    }

    /// Waits for more bytes and keeps them for `answer`. Returns false at the end of the stream.
    func begins() async throws -> Bool {
        try await readMore()
    }

    /// Sends one request and reads its response.
    func exchange(_ request: String) async throws -> Answer {
        try await send(request)
        return try await answer(toHead: request.hasPrefix("HEAD "))
    }

    /// Returns true if the server has ended the connection and the test has read all bytes.
    func isAtEnd() async throws -> Bool {
        received.isEmpty ? try await !readMore() : false
    }
}

/// An observer that records the completed requests.
final class Observations: RequestObserver {
    private let requests = Mutex<[CompletedRequest]>([])
    var all: [CompletedRequest] { requests.withLock { $0 } }

    func answered(_ request: CompletedRequest) {
        requests.withLock { $0.append(request) }
    }
}

struct TestServer {
    let server: Server
    let addresses: [SocketAddress]
    let loops: EventLoopGroup
    let observations: Observations

    func connect() async throws -> RawClient { try await RawClient(addresses[0], loops) }
}

/// Runs the body with a server. The response to a rejected request has the rejection's detail as plain text.
///
/// - Parameter serverLoops: the loops of the server. The caller shuts them down. If nil, the server makes its own
///   loops.
func withServer(
    _ routes: [Route], _ configuration: ServerConfiguration = .test, on serverLoops: EventLoopGroup? = nil,
    _ body: (TestServer) async throws -> Void
) async throws {
    let observations = Observations()
    let server = Server(
        configuration: configuration, routes: routes,
        refusals: { Response(status: $0.status, fields: $0.fields, body: .bytes(Array($0.detail.utf8))) },
        observer: observations, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, loops: serverLoops)
    let loops = try EventLoopGroup(count: 1)
    let addresses = try await server.start()
    do {
        let test = TestServer(server: server, addresses: addresses, loops: loops, observations: observations)
        try await body(test)
    } catch {
        await server.drain(withinSeconds: 0)
        await loops.shutdown()
        throw error
    }
    await server.drain(withinSeconds: 0)
    await loops.shutdown()
}

extension ServerConfiguration {
    static let test: ServerConfiguration = {
        var configuration = ServerConfiguration(addresses: [.ip(host: "127.0.0.1", port: 0)])
        configuration.lingerMilliseconds = 500
        return configuration
    }()

    func with(_ member: WritableKeyPath<ServerConfiguration, Int>, _ value: Int) -> ServerConfiguration {
        var changed = self
        changed[keyPath: member] = value
        return changed
    }
}

extension Route {
    /// GET `/hello`, answered from memory.
    static let hello = answeredFromMemory("/hello") { _ in "hello" }
    /// POST `/echo`, up to 1000 bytes.
    static let echo = Route(.post, "/echo", bodyBytesMax: 1000) { request in
        Response(status: .ok, body: .bytes(request.body))
    }
    /// GET `/number/{n}`, answered from memory.
    static let number = answeredFromMemory("/number/{n}") { $0.parameters["n"] ?? "" }

    private static func answeredFromMemory(_ template: String, _ text: @escaping @Sendable (Request) -> String) -> Route
    {
        Route(
            .get, template,
            responder: { .response(Response(status: .ok, body: .bytes(Array(text($0).utf8)))) })
    }
}

let host = "Host: test\r\n"
