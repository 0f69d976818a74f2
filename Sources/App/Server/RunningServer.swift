// Queries the running server on this machine as its operator: one GET over its first address or Unix socket, with
// OPS_TOKEN, or otherwise with a token of the role `ops` that is valid for a minute.

import API
import Foundation
import Identity
import JourneyModel
import Sockets
import Telemetry

struct RunningServer: Sendable {
    struct Unreachable: Error, CustomStringConvertible {
        var description: String
    }

    private static let answerBytesMax = 16 << 20
    private static let tokenSeconds: Int64 = 60

    let address: SocketAddress
    private let token: Secret<String>

    /// Needs the same settings as the server. Never creates a signing key: if there is none, no server has started here.
    init(_ configuration: Configuration) async throws {
        address = HealthRequest(http: configuration.http).address
        if let token = configuration.operatorToken {
            self.token = token
        } else {
            let issuer = await AccessTokenIssuer(
                key: try configuration.tokens.requiredKey(), scope: configuration.tokens.scope)
            token = Secret(
                try await issuer.mint(
                    driver: DriverID("operator"), role: "ops", ttlSeconds: Self.tokenSeconds,
                    now: millisecondsSince1970() / 1000))
        }
    }

    /// Returns the body of a 200 response.
    ///
    /// - Throws: `Unreachable`, with a sentence that says what to do.
    func get(_ path: String, within deadline: Deadline = .inSeconds(10)) async throws -> [UInt8] {
        let loops = try EventLoopGroup(count: 1)
        let answer: Result<[UInt8], TransportError>
        do throws(TransportError) {
            answer = .success(try await exchange(path, on: loops.next(), until: deadline))
        } catch {
            answer = .failure(error)
        }
        await loops.shutdown()
        switch answer {
        case .success(let bytes): return try body(of: bytes)
        case .failure(let error): throw Unreachable(description: "no server responds on \(address): \(error)")
        }
    }

    /// The whole response: the server closes after it (RFC 9112, section 9.6).
    private func exchange(
        _ path: String, on loop: EventLoop, until deadline: Deadline
    ) async throws(TransportError) -> [UInt8] {
        let connection = try await Connection.connect(to: address, on: loop, until: deadline)
        defer { connection.close() }
        let request =
            "GET \(path) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token.reveal())\r\n"
            + "Connection: close\r\n\r\n"
        try await connection.write(Array(request.utf8), until: deadline)
        var answer: [UInt8] = []
        while answer.count <= Self.answerBytesMax {
            let bytes = try await connection.read(until: deadline)
            if bytes.isEmpty { break }
            answer += bytes
        }
        return answer
    }

    private func body(of answer: [UInt8]) throws -> [UInt8] {
        let end = Array("\r\n\r\n".utf8)
        guard let status = HealthRequest.statusCode(of: answer),
            let head = answer.indices.first(where: { answer[$0...].starts(with: end) })
        else { throw Unreachable(description: "the server on \(address) is not Dwell") }
        switch status {
        case 200: return Array(answer[(head + end.count)...])
        case 401, 403:
            throw Unreachable(
                description: "the server on \(address) rejects the token: set OPS_TOKEN to the server's value")
        default: throw Unreachable(description: "the server on \(address) returns \(status)")
        }
    }
}
