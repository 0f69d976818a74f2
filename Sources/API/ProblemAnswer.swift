// The one form of every refusal (RFC 9457; contract, section 5): a handler throws a ProblemAnswer, and Access turns
// it into a response. The status comes with the code; a handler never chooses one itself.

import HTTP1
import HTTPServer
import JourneyModel

package struct ProblemAnswer: Error {
    var problem: Problem
    /// Fields of the response in addition to its body: `Retry-After`, `WWW-Authenticate`.
    var fields: Fields
    /// The reason, for the access log only.
    var reason: String?

    init(_ problem: Problem, fields: Fields = Fields()) {
        self.problem = problem
        self.fields = fields
    }

    init(_ code: ProblemCode, _ detail: String, fields: Fields = Fields()) {
        self.init(Problem(code, detail: detail), fields: fields)
    }

    /// A problem that asks for a retry after that many seconds.
    init(_ code: ProblemCode, _ detail: String, retryAfterSeconds: Int) {
        self.init(
            Problem(code, detail: detail, retryAfterSeconds: retryAfterSeconds),
            fields: Fields([("Retry-After", String(retryAfterSeconds))]))
    }

    func response(requestID: String, _ form: ProblemForm = .plain) -> Response {
        var fields = fields
        fields.append("Content-Type", Problem.mediaType)
        fields.append("Cache-Control", "no-store")
        var problem = problem(requestID: requestID)
        problem.tellsSuccess = form == .legacy
        var response = Response(
            status: Status(problem.code.status), fields: fields, body: .bytes(problem.encoded()))
        response.refusalReason = reason
        return response
    }

    /// The problem as sent to the client of that request.
    func problem(requestID: String) -> Problem {
        var problem = problem
        problem.requestID = requestID
        return problem
    }
}
