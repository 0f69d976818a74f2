// POST /auth/apple, POST /api/auth/apple of shipped clients, and POST /apple/notifications, which Apple's server calls.
// On all three routes, the credential is a token that Apple signed.

import HTTPServer
import Identity
import JourneyModel
import Logging
import Secrets

struct AppleHandlers: Sendable {
    let tokens: any AppleTokenVerifying
    let signIns: any SignInService
    let notices: any AppleNotificationService
    let failures: AccountFailures

    var signIn: OpenHandler {
        { request throws(ProblemResponse) in
            let body = try AppleSignInBody.decode(request)
            let identity = try await identity(body, request)
            do throws(AccountFailure) {
                return AccountResponses.pair(
                    try await signIns.signIn(
                        identity, authorizationCode: body.authorizationCode, profile: body.profile,
                        from: request.origin))
            } catch { throw failures.problem(error, request) }
        }
    }

    var legacySignIn: OpenHandler {
        { request throws(ProblemResponse) in
            let body = try AppleSignInBody.decode(request)
            let identity = try await identity(body, request)
            do throws(AccountFailure) {
                let token = try await signIns.signInWithSingleToken(
                    identity, profile: body.profile, from: request.origin)
                return AccountResponses.singleToken(token, withUser: true)
            } catch { throw failures.problem(error, request) }
        }
    }

    /// Accepts a notification. After any status other than 200, Apple sends the notification again.
    var takeNotice: OpenHandler {
        { request throws(ProblemResponse) in
            let body = try AppleNotificationBody.decode(request)
            let notice: AppleServerNotification
            do throws(AppleTokenRefusal) {
                notice = try await tokens.notice(of: body.payload, atSecondsSince1970: request.receivedAtSeconds)
            } catch { throw problem(error) }
            do throws(AccountFailure) {
                try await notices.take(notice, from: request.origin)
            } catch { throw failures.problem(error, request) }
            return AccountResponses.noticeTaken
        }
    }

    private func identity(_ body: AppleSignInBody, _ request: Request) async throws(ProblemResponse) -> AppleIdentity {
        do throws(AppleTokenRefusal) {
            return try await tokens.identity(
                of: body.identityToken.reveal(), rawNonce: body.nonce.reveal(),
                atSecondsSince1970: request.receivedAtSeconds)
        } catch {
            if case .refused(let reason) = error {
                await signIns.identityTokenRefused(reason: reason.rawValue, from: request.origin)
            }
            throw problem(error)
        }
    }

    /// Returns the same 401 for every refused token, and 503 if Apple's keys are unavailable. The access log contains
    /// the reason of a refusal. The audit contains the reason of a refused sign-in.
    private func problem(_ refusal: AppleTokenRefusal) -> ProblemResponse {
        switch refusal {
        case .refused(let reason):
            var problem = ProblemResponse.refusedCredential
            problem.reason = "\(reason)"
            return problem
        case .keysUnavailable(let seconds): return .keySetUnavailable(retryAfterSeconds: seconds)
        }
    }
}

extension Request {
    fileprivate var receivedAtSeconds: Int64 { receivedAtMilliseconds / 1000 }
}
