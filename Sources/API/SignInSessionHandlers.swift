// The routes for existing sign-in sessions: POST /auth/refresh and /auth/logout, GET /auth/sessions, DELETE
// /auth/sessions/{id}, and POST /api/auth/refresh of shipped clients.

import HTTPServer
import Identity
import JourneyModel

struct SignInSessionHandlers: Sendable {
    let sessions: any SignInSessionService
    let failures: AccountFailures

    func refresh(for client: PairClient) -> OpenHandler {
        { request throws(ProblemResponse) in
            let body = try RefreshBody.decode(request)
            do throws(AccountFailure) {
                return AccountResponses.pair(
                    try await sessions.refresh(body.refreshToken, for: client, from: request.origin))
            } catch { throw failures.problem(error, request) }
        }
    }

    /// Renews the single token of a shipped client. The token may have expired. `Access` would reject an expired token,
    /// so the service checks it.
    var legacyRefresh: OpenHandler {
        { request throws(ProblemResponse) in
            guard let token = BearerToken.read(from: request.fields) else { throw .refusedCredential }
            do throws(AccountFailure) {
                let renewed = try await sessions.refreshSingleToken(token, from: request.origin)
                return AccountResponses.singleToken(renewed, withUser: false)
            } catch { throw failures.problem(error, request) }
        }
    }

    var signOut: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let meansAll = try SignOutBody.meansAll(request)
            let body = try SignOutBody.decode(request)
            do throws(AccountFailure) {
                if meansAll {
                    try await sessions.signOutEverywhere(caller, from: request.origin)
                } else {
                    try await sessions.signOut(caller, refreshToken: body.refreshToken, from: request.origin)
                }
            } catch { throw failures.problem(error, request) }
            return AccountResponses.noContent
        }
    }

    var list: CallerHandler {
        { request, caller throws(ProblemResponse) in
            do throws(AccountFailure) {
                let listed = try await sessions.sessions(of: caller, at: request.receivedAt)
                return AccountResponses.sessions(listed, current: caller.signInSession)
            } catch { throw failures.problem(reading: error, request) }
        }
    }

    var end: CallerHandler {
        { request, caller throws(ProblemResponse) in
            do throws(AccountFailure) {
                try await sessions.endSession(request.parameters["id"] ?? "", of: caller, from: request.origin)
            } catch { throw failures.problem(error, request) }
            return AccountResponses.noContent
        }
    }
}
