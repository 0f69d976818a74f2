// Maps the errors of other modules to problems. The switches are exhaustive, so an error without a problem does not
// compile. Some errors are mapped where they are caught, for example `TokenRefusal` in Access.swift and
// `PurchaseFailure` in PurchaseHandlers.swift.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting

/// The seconds that a phone should wait if the store cannot accept events. In this time the server can restart, or its
/// disk can recover. The time is short compared with a session.
private let storeRetryAfterSeconds = 5

extension ProblemResponse {
    static func rateLimited(_ quota: Quota) -> ProblemResponse {
        let seconds = RateLimitValues.retryAfterSeconds(quota)
        return ProblemResponse(
            .rateLimited, "Too many events in \(quota.windowSeconds) seconds. Send again in \(seconds) s.",
            retryAfterSeconds: seconds)
    }

    static func tooManyRequests(_ quota: Quota) -> ProblemResponse {
        let seconds = RateLimitValues.retryAfterSeconds(quota)
        return ProblemResponse(
            .rateLimited, "Too many requests in \(quota.windowSeconds) seconds. Try again in \(seconds) s.",
            retryAfterSeconds: seconds)
    }

    static func tooManyRefusals(_ quota: Quota) -> ProblemResponse {
        let seconds = RateLimitValues.retryAfterSeconds(quota)
        return ProblemResponse(
            .rateLimited, "Too many rejected events in \(quota.windowSeconds) seconds. Send again in \(seconds) s.",
            retryAfterSeconds: seconds)
    }

    /// The problem for a driver with too many concurrent requests. BufferBudget limits the memory for decompressed
    /// bodies, and RequestsUnderWay limits the number of reads and batches.
    static let tooManyRequestsUnderWay = ProblemResponse(
        .serviceUnavailable, "You have too many requests under way.", retryAfterSeconds: 1)

    /// The problem for an invalid credential and for a deleted driver. The client does not learn the reason.
    static let refusedCredential = ProblemResponse(
        .unauthorized, "The credential is not valid. Sign in again.",
        fields: Fields([("WWW-Authenticate", "Bearer realm=\"dwell\"")]))

    static let sendsNoCodes = ProblemResponse(.notFound, "This server does not send codes. Sign in another way.")

    static func keySetUnavailable(retryAfterSeconds seconds: Int64) -> ProblemResponse {
        let seconds = Int(min(max(seconds, 1), 3600))
        return ProblemResponse(
            .upstreamUnavailable, "Apple's keys are unavailable. Try again in \(seconds) s.",
            retryAfterSeconds: seconds)
    }

    static let accountsUnreadable = ProblemResponse(
        .storeUnavailable, "The database is unavailable. Try again later.",
        retryAfterSeconds: storeRetryAfterSeconds)

    init(_ failure: AccountFailure) {
        switch failure {
        case .unauthorized: self = .refusedCredential
        case .limited(let seconds):
            let seconds = Int(min(max(seconds, 1), 3600))
            self.init(.rateLimited, "Too many attempts. Try again in \(seconds) s.", retryAfterSeconds: seconds)
        case .exportUnderWay(let seconds):
            self.init(
                .rateLimited,
                "Another export of this account is in progress. Finish or close it, then try again.",
                retryAfterSeconds: Int(min(max(seconds, 1), 3600)))
        case .invalid(let errors): self.init(.invalid(InvalidFields(errors)))
        case .notFound: self.init(.notFound, "Resource not found.")
        case .unavailable, .cancelled:
            self.init(
                .storeUnavailable, "The database is unavailable. Nothing was changed. Try again later.",
                retryAfterSeconds: storeRetryAfterSeconds)
        case .unknown: self.init(.internalError, "The outcome is unknown. Check, or send the request again.")
        }
    }

    static let preconditionFailed = ProblemResponse(
        .preconditionFailed, "If-Match does not contain the current ETag. Read the resource without If-Match.")

    static let keyReused = ProblemResponse(
        .idempotencyKeyReused, "This idempotency key was used for a different event. Use a new key.")

    /// The problem for a session that does not exist or that belongs to another driver. A client cannot distinguish the
    /// two cases.
    static let sessionNotFound = ProblemResponse(
        .sessionNotFound, "Session not found.")

    static let driverNotFound = ProblemResponse(
        Problem(
            .driverNotFound, detail: "Driver not found. /driver_id must be a driver known to this server.",
            errors: [FieldError(pointer: "/driver_id", detail: "must be a driver known to this server")]))

    static let notForServices = ProblemResponse(
        .forbidden,
        "A token of the role service only posts events, on /native/events and /native/events/batch, and requests codes."
    )

    /// The problem for a driver on a route for services.
    static let forServicesOnly = ProblemResponse(.forbidden, "A token of the role service is required.")

    init(_ failure: StoreFailure) {
        self.init(
            writing: failure, unavailable: "The event was not stored. Send it again later.",
            unknown: "The event may or may not be stored. Send it again with the same key.")
    }

    init(registering failure: StoreFailure) {
        self.init(
            writing: failure, unavailable: "The session was not registered. Try again later.",
            unknown: "The session may or may not be registered. Send the request again.")
    }

    private init(writing failure: StoreFailure, unavailable: String, unknown: String) {
        switch failure {
        case .driverErased: self = .refusedCredential
        case .unavailable, .cancelled:
            self.init(.storeUnavailable, unavailable, retryAfterSeconds: storeRetryAfterSeconds)
        case .unknown: self.init(.internalError, unknown)
        }
    }

    /// Creates the problem for a failed read-only request.
    init(reading failure: StoreFailure) {
        self.init(
            .storeUnavailable, "The database is unavailable. Try again later.",
            retryAfterSeconds: storeRetryAfterSeconds)
    }

    /// The problem if the server cannot read whether a token is valid, for example because of a full disk. It is not a
    /// 401, because the app signs the driver out after a 401.
    static let undecidedToken = ProblemResponse(
        .storeUnavailable, "The token cannot be verified now. Try again later.",
        retryAfterSeconds: storeRetryAfterSeconds)

    init(_ refusal: JourneyStreams.Refusal) {
        switch refusal {
        case .driverHasEnough(let seconds):
            self.init(
                .rateLimited,
                "There are \(JourneyStreams.streamsPerDriverMax) open streams for this driver. Close one, or try again in \(seconds) s.",
                retryAfterSeconds: seconds)
        case .full, .closed:
            self.init(
                .serviceUnavailable, "Too many open streams. Try again later.",
                retryAfterSeconds: StreamHandler.retryAfterSeconds)
        }
    }

    init(_ refusal: BodyRefusal) {
        self.init(Problem(refusal))
    }

    /// Creates the problem for a request that reached no handler.
    init(_ refused: RefusedRequest) {
        let retryAfterSeconds = refused.fields.first("Retry-After").flatMap { Int($0) }
        self.init(
            Problem(
                ProblemCode(status: refused.status), detail: refused.detail, retryAfterSeconds: retryAfterSeconds),
            fields: refused.fields)
    }
}

extension ProblemCode {
    init(status: Status) {
        switch status {
        case .notFound: self = .notFound
        case .methodNotAllowed: self = .methodNotAllowed
        case .requestTimeout: self = .requestTimeout
        case .contentTooLarge: self = .contentTooLarge
        case .uriTooLong: self = .uriTooLong
        case .unsupportedMediaType: self = .unsupportedMediaType
        case .expectationFailed: self = .expectationFailed
        case .requestHeaderFieldsTooLarge: self = .headerFieldsTooLarge
        case .notImplemented: self = .notImplemented
        case .serviceUnavailable: self = .serviceUnavailable
        case .httpVersionNotSupported: self = .httpVersionNotSupported
        case .internalServerError: self = .internalError
        default: self = .badRequest
        }
    }
}
