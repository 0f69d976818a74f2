// The stable codes of section 5 of the contract. Each code has a status, a title, and a value that says whether a retry
// can succeed.

/// The member `code` of a problem. Clients may depend on the codes, so no code is ever renamed.
public enum ProblemCode: String, Hashable, Sendable, CaseIterable {
    case badRequest = "bad_request"
    case malformedJSON = "malformed_json"
    case validationFailed = "validation_failed"
    case unauthorized
    case forbidden
    case notFound = "not_found"
    case sessionNotFound = "session_not_found"
    /// A service named a driver who does not exist or was deleted.
    case driverNotFound = "driver_not_found"
    case methodNotAllowed = "method_not_allowed"
    case requestTimeout = "request_timeout"
    /// The code that the driver entered is not the verification code of the session.
    case wrongCode = "wrong_code"
    /// The session has no verification code that can be accepted now.
    case codeUnavailable = "code_unavailable"
    /// A service requested the code of a session that is not in progress.
    case sessionNotActive = "session_not_active"
    /// The purchase belongs to another account.
    case purchaseOwnedByAnother = "purchase_owned_by_another"
    case preconditionFailed = "precondition_failed"
    case contentTooLarge = "content_too_large"
    case uriTooLong = "uri_too_long"
    case unsupportedMediaType = "unsupported_media_type"
    case expectationFailed = "expectation_failed"
    case idempotencyKeyReused = "idempotency_key_reused"
    case rateLimited = "rate_limited"
    case headerFieldsTooLarge = "header_fields_too_large"
    /// The server may or may not have stored the event. The client should retry with the same idempotency key.
    case internalError = "internal_error"
    case notImplemented = "not_implemented"
    /// The server cannot process the request now, for example because it is starting, draining or full. Nothing was
    /// stored, so retry.
    case serviceUnavailable = "service_unavailable"
    /// The database is unavailable. Nothing was stored, so retry.
    case storeUnavailable = "store_unavailable"
    /// A service that the server calls does not respond, for example Apple's key set.
    case upstreamUnavailable = "upstream_unavailable"
    case httpVersionNotSupported = "http_version_not_supported"

    /// The HTTP status, 400 to 599.
    public var status: Int { meaning.status }

    /// A short name for people, the same for every occurrence (RFC 9457, section 3.1.3).
    public var title: String { meaning.title }

    /// Whether the same request can succeed later. After 408, the client can retry at any time. After 429 or 503, it
    /// must wait for the time in `Retry-After`. After 500, it must retry with the same idempotency key, and the
    /// response shows whether the event was already stored.
    public var isRetryable: Bool {
        switch status {
        case 408, 429, 500, 503: true
        default: false
        }
    }

    /// The member `type` (RFC 9457, section 3.1.1). It identifies the kind of problem and is not meant to be fetched.
    public var typeURI: String { "urn:dwell:problem:" + rawValue }

    private var meaning: (status: Int, title: String) {
        switch self {
        case .badRequest: (400, "Bad request")
        case .malformedJSON: (400, "The body is not valid JSON")
        case .validationFailed: (400, "Invalid request")
        case .unauthorized: (401, "Sign in again")
        case .forbidden: (403, "Insufficient permissions")
        case .notFound: (404, "Not found")
        case .sessionNotFound: (404, "Session not found")
        case .driverNotFound: (404, "Driver not found")
        case .methodNotAllowed: (405, "Method not allowed")
        case .requestTimeout: (408, "The request took too long to arrive")
        case .wrongCode: (400, "The code is wrong")
        case .codeUnavailable: (409, "No code can be accepted")
        case .sessionNotActive: (409, "The session is not in progress")
        case .purchaseOwnedByAnother: (409, "The purchase belongs to another account")
        case .preconditionFailed: (412, "The precondition does not hold")
        case .contentTooLarge: (413, "The body is too large")
        case .uriTooLong: (414, "The request target is too long")
        case .unsupportedMediaType: (415, "Unsupported media type or content coding")
        case .expectationFailed: (417, "The expectation cannot be met")
        case .idempotencyKeyReused: (422, "The idempotency key was used for a different event")
        case .rateLimited: (429, "Too many requests")
        case .headerFieldsTooLarge: (431, "The header fields are too large")
        case .internalError: (500, "Internal error")
        case .notImplemented: (501, "Not implemented")
        case .serviceUnavailable: (503, "Service unavailable")
        case .storeUnavailable: (503, "Storage unavailable")
        case .upstreamUnavailable: (503, "Upstream service unavailable")
        case .httpVersionNotSupported: (505, "HTTP version not supported")
        }
    }
}
