// Tests of the scenario `retried-sign-in`. One server in memory is correct, and each of the others has one fault.

import JourneyClient
import JourneyModel
import Simulation
import Synchronization
import Testing

/// A server that accepts any identity token with a new nonce. It stores the token of each nonce.
final class ScriptedSignIn: Transport {
    enum Fault: String, CaseIterable {
        case refusesRepeat, opensAnotherSession, makesAnotherUser, takesAnotherToken, keepsAccounts
    }

    private let fault: Fault?
    private let server = ScriptedServer()
    private let tokens = Mutex<[String: String]>([:])
    private let deleted = Mutex<[String]>([])

    init(_ fault: Fault? = nil) {
        self.fault = fault
    }

    var deletedTokens: [String] { deleted.withLock { $0 } }

    func send(_ request: HTTPExchange.Request) async -> HTTPExchange.Outcome {
        if request.method == "DELETE" {
            let token = request.fields.first { $0.name == "Authorization" }?.value ?? ""
            deleted.withLock { $0.append(token) }
            return .response(HTTPExchange.Response(status: fault == .keepsAccounts ? 503 : 200))
        }
        guard request.path.hasSuffix("/auth/apple"), let body = try? JSONValue.parse(request.body),
            let nonce = body["nonce"]?.string, let token = body["identity_token"]?.string
        else { return await server.send(request) }
        let first = tokens.withLock { tokens in
            defer { if tokens[nonce] == nil { tokens[nonce] = token } }
            return tokens[nonce]
        }
        if let first, first != token, fault != .takesAnotherToken { return refusal }
        if first != nil, fault == .refusesRepeat { return refusal }
        let isOther = first != nil
        // `{"sid":"two"}` and `{"sid":"one"}` in base64url.
        let payload = isOther && fault == .opensAnotherSession ? "eyJzaWQiOiJ0d28ifQ" : "eyJzaWQiOiJvbmUifQ"
        let user = isOther && fault == .makesAnotherUser ? "other" : "user"
        let json = """
            {"token":"h.\(payload).s","access_token":"access","refresh_token":"\(payload)","user":{"id":"\(user)"}}
            """
        return .response(HTTPExchange.Response(status: 200, body: Array(json.utf8)))
    }

    private var refusal: HTTPExchange.Outcome { .response(HTTPExchange.Response(status: 401)) }
}

extension JSONValue {
    fileprivate var string: String? { if case .string(let text) = self { text } else { nil } }
}

struct SignInPlayTests {
    private func play(_ transport: ScriptedSignIn) async throws -> Summary {
        let options = SimulatedDrivers.Options(
            seed: 1, drivers: 2, eventsPerSecond: 1_000_000, scenarios: [.retriedSignIn], runID: "run-1")
        return try await SimulatedDrivers(
            options, transport: transport, tokens: .perDriver { "token of \($0)" },
            identityToken: { subject, _ in "\(subject) \(UInt64.random(in: 0 ... .max))" }, sleep: { _ in }
        ).run { _ in }
    }

    @Test("an honest server passes, once for a run, and both accounts are deleted")
    func honestServerPasses() async throws {
        let server = ScriptedSignIn()
        let summary = try await play(server)
        #expect(summary.drives == [.retriedSignIn: 1] && summary.events == 0)
        #expect(server.deletedTokens == ["Bearer h.eyJzaWQiOiJvbmUifQ.s", "Bearer access"])
    }

    @Test(
        "each fault is caught",
        arguments: [
            (ScriptedSignIn.Fault.refusesRepeat, "sent again, got 401 instead of 200"),
            (.opensAnotherSession, "another sign-in session"), (.makesAnotherUser, "another user"),
            (.takesAnotherToken, "with a used nonce in another token, got 200"),
        ])
    func catchesFaults(fault: ScriptedSignIn.Fault, difference: String) async throws {
        let error = await #expect(throws: Divergence.self) { try await play(ScriptedSignIn(fault)) }
        #expect(error?.scenario == .retriedSignIn && error?.differences == [difference])
    }

    @Test("an account that cannot be deleted is a failure")
    func saysWhatStays() async throws {
        await #expect(throws: SimulationFailure.self) { try await play(ScriptedSignIn(.keepsAccounts)) }
    }
}
