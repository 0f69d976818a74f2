// Calls the running server on this machine as an operator. A call is one GET to the server's first address or Unix
// socket. The credential is OPS_TOKEN or, if OPS_TOKEN is not set, a new token of the role `ops` that is valid for a
// minute.

import API
import Foundation
import Identity
import JourneyModel
import Secrets
import Sockets
import StructuredLogging

struct RunningServer: Sendable {
    struct Unreachable: Error, CustomStringConvertible {
        var description: String
    }

    private static let tokenSeconds: Int64 = 60

    let address: SocketAddress
    private let token: Secret<String>

    /// Prepares calls to the server that was started with the same settings. Without OPS_TOKEN, signs a token with the
    /// server's key.
    ///
    /// Throws if OPS_TOKEN is not set and the server's key is missing. A missing key means that no server was started,
    /// because a server without a configured key creates its key at the first start.
    init(_ configuration: Configuration) async throws {
        address = HealthRequest(http: configuration.http).address
        if let token = configuration.operatorToken {
            self.token = token
        } else {
            let issuer = await AccessTokenIssuer(
                key: try configuration.tokens.requiredKey(), scope: configuration.tokens.scope)
            token = Secret(
                try await issuer.mint(
                    driver: DriverID("operator"), role: TokenRole.ops.rawValue, ttlSeconds: Self.tokenSeconds,
                    now: millisecondsSince1970() / 1000))
        }
    }

    /// Sends a GET and returns the content of the response.
    ///
    /// - Throws: `Unreachable` if no server responds or the status is not 200. Its text says what went wrong.
    func get(_ path: String, within deadline: Deadline = .inSeconds(10)) async throws -> [UInt8] {
        let answer: LocalExchange.Answer
        do {
            answer = try await LocalExchange(address: address).send(
                "GET", path, fields: "Authorization: Bearer \(token.reveal())\r\n", within: deadline)
        } catch let error as TransportError {
            throw Unreachable(description: "no server responds on \(address): \(error)")
        }
        switch answer.status {
        case nil: throw Unreachable(description: "the server on \(address) is not Dwell")
        case 200: return answer.body
        case 401, 403:
            throw Unreachable(
                description: "the server on \(address) rejects the token: set OPS_TOKEN to the server's value")
        case .some(let status): throw Unreachable(description: "the server on \(address) returns \(status)")
        }
    }
}
