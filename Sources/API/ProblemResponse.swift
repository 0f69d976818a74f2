// The form of every refusal (RFC 9457; contract, section 5). A handler throws a ProblemResponse. The caller of the
// handler, such as `Access`, turns it into a response with the status of the problem's code.

import HTTP1
import HTTPServer
import JourneyModel

package struct ProblemResponse: Error {
    var problem: Problem
    /// Additional fields of the response, such as `Retry-After` and `WWW-Authenticate`.
    var fields: Fields
    /// The reason of the refusal. Only the access log contains it.
    var reason: String?

    init(_ problem: Problem, fields: Fields = Fields()) {
        self.problem = problem
        self.fields = fields
    }

    init(_ code: ProblemCode, _ detail: String, fields: Fields = Fields()) {
        self.init(Problem(code, detail: detail), fields: fields)
    }

    /// Creates a problem whose `Retry-After` field has the value `retryAfterSeconds`.
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

    /// Returns the problem with the id of the refused request added.
    func problem(requestID: String) -> Problem {
        var problem = problem
        problem.requestID = requestID
        return problem
    }
}
