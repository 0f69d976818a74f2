// One form for every refusal (RFC 9457; contract, section 5): a handler throws a Problem, the door turns it
// into a response. The status comes with the code; a problem never picks one by itself.

import HTTP1
import HTTPServer
import JourneyModel

struct Problem: Error {
    var code: ProblemCode
    /// A sentence for the client. Never repeats input, and never tells of the server's insides.
    var detail: String
    /// Field errors, all of them at once.
    var errors: [FieldError]
    /// Fields that the answer must carry beside its body: `Retry-After`, `WWW-Authenticate`.
    var fields: Fields

    init(_ code: ProblemCode, _ detail: String, errors: [FieldError] = [], fields: Fields = Fields()) {
        self.code = code
        self.detail = detail
        self.errors = errors
        self.fields = fields
    }

    func response(requestID: String) -> Response {
        var fields = fields
        fields.append("Content-Type", "application/problem+json")
        fields.append("Cache-Control", "no-store")
        return Response(status: Status(code.status), fields: fields, body: .bytes(body(requestID: requestID)))
    }

    /// The problem as JSON; what a batch puts in the place of an event's answer.
    func body(requestID: String) -> [UInt8] {
        ProblemDetails(code: code, detail: detail, requestID: requestID, errors: errors).encoded()
    }
}
