// POST /auth/otp/start and /auth/otp/verify: signing in with a phone number and the six digits that the server sent to
// this number. Shipped apps use /v1/auth/otp/start and /v1/auth/otp/verify, or /api/auth/send-code and
// /api/auth/verify-code.

import HTTPServer
import Identity
import JourneyModel

struct CodeHandlers: Sendable {
    let signIns: any SignInService
    /// Whether a way to deliver codes is configured.
    let areSent: Bool
    let failures: AccountFailures

    /// Sends a code. The response does not depend on whether an account has the phone number.
    var start: OpenHandler {
        { request throws(ProblemResponse) in
            try await send(request, CodeRequestBody.decode)
            return AccountResponses.codeSent
        }
    }

    func verify(for client: PairClient) -> OpenHandler {
        { request throws(ProblemResponse) in
            let body = try CodeBody.decode(request)
            do throws(AccountFailure) {
                return AccountResponses.pair(
                    try await signIns.signIn(phone: body.phone, code: body.code, for: client, from: request.origin))
            } catch { throw failures.problem(error, request) }
        }
    }

    // MARK: Shipped clients with a single token

    var legacyStart: OpenHandler {
        { request throws(ProblemResponse) in
            try await send(request, CodeRequestBody.decodeLegacy)
            return AccountResponses.legacyCodeSent
        }
    }

    var legacyVerify: OpenHandler {
        { request throws(ProblemResponse) in
            let body = try CodeBody.decodeLegacy(request)
            do throws(AccountFailure) {
                let token = try await signIns.signInWithSingleToken(
                    phone: body.phone, code: body.code, from: request.origin)
                return AccountResponses.singleToken(token, withUser: true)
            } catch { throw failures.problem(error, request) }
        }
    }

    private func send(
        _ request: Request, _ decode: (Request) throws(ProblemResponse) -> CodeRequestBody
    ) async throws(ProblemResponse) {
        guard areSent else { throw .sendsNoCodes }
        let body = try decode(request)
        do throws(AccountFailure) {
            try await signIns.sendCode(to: body.phone, from: request.origin)
        } catch { throw failures.problem(error, request) }
    }
}
