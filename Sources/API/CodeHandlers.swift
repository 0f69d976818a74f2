// POST /auth/otp/start and /auth/otp/verify: signing in with a number and the six digits that it is sent.

import HTTPServer
import Identity
import JourneyModel

struct CodeHandlers: Sendable {
    let signIns: any SigningIn
    /// False where nobody configured how a code reaches a phone.
    let areSent: Bool
    let failures: AccountFailures

    /// One answer for every number, known or not.
    var start: OpenHandler {
        { request throws(ProblemAnswer) in
            let body = try CodeRequestBody.decode(request)
            guard areSent else { throw .sendsNoCodes }
            do throws(AccountFailure) {
                try await signIns.sendCode(to: body.phone, from: request.origin)
            } catch { throw failures.problem(error, request) }
            return AccountAnswers.codeSent
        }
    }

    var verify: OpenHandler {
        { request throws(ProblemAnswer) in
            let body = try CodeBody.decode(request)
            do throws(AccountFailure) {
                return AccountAnswers.pair(
                    try await signIns.signIn(phone: body.phone, code: body.code, from: request.origin))
            } catch { throw failures.problem(error, request) }
        }
    }
}
