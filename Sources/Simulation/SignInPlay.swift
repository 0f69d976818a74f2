// The scenario `retried-sign-in`: a sign-in with Apple is repeated as if its response had been lost (contract, section
// 6). At the end, the created accounts are deleted.

import Foundation
import JourneyClient
import JourneyModel

struct SignInPlay {
    let options: SimulatedDrivers.Options
    let identityToken: SimulatedDrivers.IdentityToken
    let sender: RequestSender

    private static let singleTokenRoute = "/api/auth/apple"
    private static let pairRoute = "/auth/apple"

    /// - Throws: `Divergence`, `SimulationFailure`, `CancellationError`.
    func run() async throws {
        let single = try await signInTwice(Self.singleTokenRoute)
        let sessions = single.map { Self.signInSession(ofToken: $0["token"]?.text) }
        try expect(sessions[0] != nil && sessions[0] == sessions[1], Self.singleTokenRoute, "another sign-in session")
        try await delete("/api/auth/me", token: single[1]["token"]?.text, body: [])

        let pairs = try await signInTwice(Self.pairRoute)
        let refreshTokens = pairs.map { $0["refresh_token"]?.text }
        try expect(
            refreshTokens[0] != nil && refreshTokens[0] == refreshTokens[1], Self.pairRoute, "another refresh token")
        try await delete("/auth/me", token: pairs[1]["access_token"]?.text, body: Array(#"{"confirm":true}"#.utf8))
        sender.tally.change { $0.drives[.retriedSignIn, default: 0] += 1 }
    }

    /// Sends a sign-in request twice, and returns both responses. Then sends a third request, with the same nonce in
    /// another identity token, which the server must reject.
    private func signInTwice(_ route: String) async throws -> [JSONValue] {
        let subject = "\(options.runID)\(route)"
        let nonce = "\(subject)-nonce"
        let body = Self.body(try await identityToken(subject, nonce), nonce)
        var answers: [JSONValue] = []
        for attempt in ["sent first", "sent again"] {
            let response = try await post(route, body)
            try expect(response.status == 200, route, "\(attempt), got \(response.status) instead of 200")
            answers.append(response.json ?? .null)
        }
        let people = answers.map { $0["user"]?["id"]?.text }
        try expect(people[0] != nil && people[0] == people[1], route, "another user")
        let other = try await post(route, Self.body(try await identityToken(subject, nonce), nonce))
        try expect(other.status == 401, route, "with a used nonce in another token, got \(other.status)")
        return answers
    }

    private func post(_ path: String, _ body: [UInt8]) async throws -> HTTPExchange.Response {
        try await sender.send(events: 0, takesRefusals: true) { _ in
            HTTPExchange.Request(
                method: "POST", path: path, fields: [HTTPExchange.Field("Content-Type", "application/json")],
                body: body)
        }.response
    }

    private func delete(_ path: String, token: String?, body: [UInt8]) async throws {
        let response = try await sender.send(events: 0) { _ in
            var fields = [HTTPExchange.Field("Authorization", "Bearer \(token ?? "")")]
            if !body.isEmpty { fields.append(HTTPExchange.Field("Content-Type", "application/json")) }
            return HTTPExchange.Request(method: "DELETE", path: path, fields: fields, body: body)
        }.response
        try expect(response.status == 200, path, "DELETE got \(response.status) instead of 200")
    }

    private static func body(_ identityToken: String, _ nonce: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.value(
            .object([JSONMember("identity_token", .string(identityToken)), JSONMember("nonce", .string(nonce))]))
        return writer.bytes
    }

    private static func signInSession(ofToken token: String?) -> String? {
        let parts = token?.split(separator: ".") ?? []
        guard parts.count == 3, let payload = base64URLDecoded(parts[1]) else { return nil }
        return (try? JSONValue.parse(payload))?["sid"]?.text
    }

    /// Decodes base64url without padding (RFC 4648, section 5).
    private static func base64URLDecoded(_ text: Substring) -> [UInt8]? {
        let standard = text.replacing("-", with: "+").replacing("_", with: "/")
        let padding = String(repeating: "=", count: (4 - standard.count % 4) % 4)
        return Data(base64Encoded: standard + padding).map { Array($0) }
    }

    private func expect(_ isSo: Bool, _ route: String, _ difference: String) throws {
        guard !isSo else { return }
        throw Divergence(
            seed: options.seed, scenarios: options.scenarios, scenario: .retriedSignIn,
            driver: "\(options.runID)\(route)", eventID: "none", event: route, delivery: "sent again",
            differences: [difference])
    }
}
