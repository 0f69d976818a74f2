// One request to the running server on this machine, over TCP or over a Unix socket.

import Sockets

struct LocalExchange: Sendable {
    struct Answer: Sendable {
        /// The status code. If the response has no complete HTTP/1.1 head, this is nil, and `body` is empty.
        var status: Int?
        var body: [UInt8]
    }

    private static let answerBytesMax = 16 << 20

    let address: SocketAddress

    /// Sends the request and reads the response until the server closes the connection (RFC 9112, section 9.6). Stops
    /// reading after `answerBytesMax` bytes, so a longer response is cut.
    ///
    /// - Parameter fields: the field lines, each with its CRLF.
    func send(
        _ method: String, _ path: String, fields: String, body: [UInt8] = [], within deadline: Deadline
    ) async throws -> Answer {
        let loops = try EventLoopGroup(count: 1)
        let head =
            "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n\(fields)Content-Length: \(body.count)\r\n"
            + "Connection: close\r\n\r\n"
        let bytes: Result<[UInt8], TransportError>
        do throws(TransportError) {
            bytes = .success(try await exchange(Array(head.utf8) + body, on: loops.next(), until: deadline))
        } catch {
            bytes = .failure(error)
        }
        await loops.shutdown()
        return Self.answer(try bytes.get())
    }

    private func exchange(
        _ request: [UInt8], on loop: EventLoop, until deadline: Deadline
    ) async throws(TransportError) -> [UInt8] {
        let connection = try await Connection.connect(to: address, on: loop, until: deadline)
        defer { connection.close() }
        try await connection.write(request, until: deadline)
        var answer: [UInt8] = []
        while answer.count <= Self.answerBytesMax {
            let bytes = try await connection.read(until: deadline)
            if bytes.isEmpty { break }
            answer += bytes
        }
        return answer
    }

    private static func answer(_ bytes: [UInt8]) -> Answer {
        let end = Array("\r\n\r\n".utf8)
        guard let status = HealthRequest.statusCode(of: bytes),
            let head = bytes.indices.first(where: { bytes[$0...].starts(with: end) })
        else { return Answer(status: nil, body: []) }
        return Answer(status: status, body: Array(bytes[(head + end.count)...]))
    }
}
