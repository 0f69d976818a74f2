// POST /native/sessions/{session_id}/verification-code, for services, and POST /native/sessions/{session_id}/verify,
// for the driver's app (contract, section 3, "Verification codes"). When the driver enters the right code, the server
// stores a visitVerifiedByWeb event, as if a service had sent it.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Secrets

struct SessionCodeHandlers: Sendable {
    let codes: SessionCodes
    let events: EventHandlers
    let failures: AccountFailures

    var issue: CallerHandler {
        { request, _ throws(ProblemResponse) in
            let sessionID = request.parameters["session_id"] ?? ""
            let code: Secret<String>
            let issue: SessionCodeIssue
            do throws(AccountFailure) {
                (code, issue) = try await codes.issue(forSession: sessionID, at: request.receivedAt)
            } catch { throw failures.problem(error, request) }
            switch issue {
            case .issued(let expiresAt): return response(sessionID, code, expiresAt)
            case .sessionNotFound: throw .sessionNotFound
            case .sessionNotActive:
                throw ProblemResponse(.sessionNotActive, "A code is issued only while the session is in progress.")
            }
        }
    }

    var verify: CallerHandler {
        { request, caller throws(ProblemResponse) in
            let sessionID = request.parameters["session_id"] ?? ""
            let code = try SessionCodeBody.decode(request)
            let verdict: SessionCodeRule?
            do throws(AccountFailure) {
                verdict = try await codes.judge(
                    code, ofSession: sessionID, of: caller.driver, from: request.origin)
            } catch { throw failures.problem(error, request) }
            switch verdict {
            case .right(let acceptedAt)?:
                // The process may die before `confirm` stores the event. In this case the app sends the code again, and
                // the server accepts it again. Both requests produce an event with the same key and time, so only one
                // event is stored.
                let outcome = await events.ingest.confirm(
                    .verification(ofSession: sessionID, at: acceptedAt), of: caller.driver,
                    receivedAt: request.receivedAt)
                return try events.confirmationResponse(outcome, of: caller.driver, request)
            case .wrong(let left)?:
                throw .codeProblem(
                    .wrongCode,
                    left > 0 ? "is wrong; tries left: \(left)" : "is wrong; no try is left, ask for a new code")
            case .unavailable?:
                throw .codeProblem(
                    .codeUnavailable,
                    "cannot be accepted: none was issued, it expired, its tries are used up, or the session has ended")
            case nil: throw .sessionNotFound
            }
        }
    }

    private func response(_ sessionID: String, _ code: Secret<String>, _ expiresAt: Moment) -> Response {
        var writer = JSONWriter(reservingBytes: 128)
        writer.beginObject()
        writer.name("session_id")
        writer.string(sessionID)
        writer.name("code")
        writer.string(code.reveal())
        writer.name("expires_at")
        writer.string(RFC3339.text(of: expiresAt))
        writer.name("tries")
        writer.integer(SessionCodeRule.triesMax)
        writer.endObject()
        return Response(
            status: .created, fields: Fields([("Content-Type", "application/json"), ("Cache-Control", "no-store")]),
            body: .bytes(writer.bytes))
    }
}

/// The body of POST /native/sessions/{session_id}/verify.
enum SessionCodeBody {
    static func decode(_ request: Request) throws(ProblemResponse) -> Secret<String> {
        try JSONBody.decode(request) { $0.code() }
    }
}

extension ProblemResponse {
    fileprivate static func codeProblem(_ code: ProblemCode, _ detail: String) -> ProblemResponse {
        ProblemResponse(
            Problem(code, detail: "/code \(detail).", errors: [FieldError(pointer: "/code", detail: detail)]))
    }
}
