// Who may call a route, decided in one place before any handler runs.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Logging

/// A handler behind a token: it is told who is calling.
typealias CallerHandler = @Sendable (Request, Caller) async throws(ProblemAnswer) -> Response

struct Access: Sendable {
    let tokens: any TokenVerifier
    let logger: Logger

    /// Anyone; for what must answer without a credential, such as `/healthz`.
    func anyone(_ handler: @escaping @Sendable (Request) async throws(ProblemAnswer) -> Response)
        -> @Sendable (Request) async -> Response
    {
        { request in
            do throws(ProblemAnswer) {
                return try await handler(request)
            } catch {
                return error.response(requestID: request.id)
            }
        }
    }

    /// Any signed-in driver.
    func driver(_ handler: @escaping CallerHandler) -> @Sendable (Request) async -> Response {
        anyone { request throws(ProblemAnswer) in
            try await handler(request, try await caller(of: request))
        }
    }

    /// 401 and nothing else: shipped clients take 401 and 403 as "sign in again" (contract, section 3), and
    /// why a token was refused is nothing to tell whoever sent it.
    private func caller(of request: Request) async throws(ProblemAnswer) -> Caller {
        guard let token = BearerToken.read(from: request.fields) else {
            throw unauthorized("A bearer token is required.", challenge: "Bearer realm=\"dwell\"")
        }
        do throws(TokenRefusal) {
            return try await tokens.verify(token, atSecondsSince1970: request.receivedAtMilliseconds / 1000)
        } catch {
            logger.info("a token was refused", metadata: ["request_id": "\(request.id)", "reason": "\(error)"])
            throw unauthorized(
                "The token is not valid. Sign in again.",
                challenge: "Bearer realm=\"dwell\", error=\"invalid_token\"")
        }
    }

    private func unauthorized(_ detail: String, challenge: String) -> ProblemAnswer {
        ProblemAnswer(.unauthorized, detail, fields: Fields([("WWW-Authenticate", challenge)]))
    }
}
