/// Problem details (RFC 9457, `application/problem+json`), the form of every error response (contract, section 5).
public struct Problem: Error, Hashable, Sendable {
    public static let mediaType = "application/problem+json"

    public var code: ProblemCode
    /// A sentence for the client about this occurrence of the problem. It is also sent as `error`, because shipped
    /// clients decode that member. It contains no path, SQL, stack trace or data of another driver.
    public var detail: String
    public var requestID: String?
    /// The errors of single members. Only some codes have them, above all `validation_failed`. An empty list is not
    /// sent.
    public var errors: [FieldError]
    /// The number of errors that `errors` leaves out, because the response to a batch lists at most 100 errors.
    public var errorsOmitted = 0
    /// The seconds to wait before a retry, as in `Retry-After`. The body repeats them, because a result inside a batch
    /// has no header fields.
    public var retryAfterSeconds: Int?
    /// Whether `"success":false` is added. Shipped clients of /api/auth decode this member.
    public var tellsSuccess = false

    public init(
        _ code: ProblemCode, detail: String, requestID: String? = nil, errors: [FieldError] = [],
        retryAfterSeconds: Int? = nil
    ) {
        self.retryAfterSeconds = retryAfterSeconds
        self.code = code
        self.detail = detail
        self.requestID = requestID
        self.errors = errors
    }

    /// Creates the problem for a rejected body.
    ///
    /// - Parameter errorsMax: the maximum number of errors that are listed. The other errors are counted in
    ///   `errorsOmitted`.
    public init(_ refusal: BodyRefusal, requestID: String? = nil, errorsMax: Int = .max) {
        switch refusal {
        case .malformedJSON(let error):
            self.init(.malformedJSON, detail: error.detail, requestID: requestID)
        case .invalid(let fields):
            let listed = Array(fields.errors.prefix(max(errorsMax, 0)))
            let omitted = fields.errors.count - listed.count
            var detail = listed.map { "\($0.pointer.isEmpty ? "The body" : $0.pointer) \($0.detail)" }
            if omitted > 0 { detail.append("errors omitted: \(omitted)") }
            self.init(
                .validationFailed, detail: detail.joined(separator: "; ") + ".", requestID: requestID, errors: listed)
            errorsOmitted = omitted
        case .otherDriver:
            let error = FieldError(pointer: "/driver_id", detail: "must be the driver of the token")
            self.init(
                .forbidden, detail: "\(error.pointer) \(error.detail), unless the token has the role service.",
                requestID: requestID, errors: [error])
        }
    }

    /// Keeps only the first `count` field errors, and adds the number of removed errors to `errorsOmitted`.
    public mutating func listErrors(atMost count: Int) {
        let omitted = errors.count - max(count, 0)
        guard omitted > 0 else { return }
        errors.removeLast(omitted)
        errorsOmitted += omitted
    }

    public func encoded() -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 384)
        write(to: &writer, statusCode: nil)
        return writer.bytes
    }

    func write(to writer: inout JSONWriter, statusCode: Int?) {
        func member(_ name: String, _ text: String) {
            writer.name(name)
            writer.string(text)
        }
        writer.beginObject()
        if tellsSuccess {
            writer.name("success")
            writer.bool(false)
        }
        member("type", code.typeURI)
        member("title", code.title)
        writer.name("status")
        writer.integer(code.status)
        if let statusCode {
            writer.name("status_code")
            writer.integer(statusCode)
        }
        member("detail", detail)
        member("code", code.rawValue)
        if let requestID { member("request_id", requestID) }
        if !errors.isEmpty {
            writer.name("errors")
            writer.beginArray()
            for error in errors {
                writer.beginObject()
                member("pointer", error.pointer)
                member("detail", error.detail)
                writer.endObject()
            }
            writer.endArray()
        }
        if errorsOmitted > 0 {
            writer.name("errors_omitted")
            writer.integer(errorsOmitted)
        }
        member("error", detail)
        if let retryAfterSeconds {
            writer.name("retry_after")
            writer.integer(retryAfterSeconds)
        }
        writer.name("retryable")
        writer.bool(code.isRetryable)
        writer.endObject()
    }
}
