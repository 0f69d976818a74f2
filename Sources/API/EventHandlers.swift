// Handles POST /native/events and the two v1 routes for single events.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Logging
import RateLimiting

/// The handlers of event routes. This type is a class, so that a request's closure captures one reference instead of a
/// copy of every member.
final class EventHandlers: Sendable {
    let ingest: Ingest
    let refusals: RefusalLimit
    private let bufferBudget: BufferBudget
    let logger: Logger

    init(ingest: Ingest, refusals: RefusalLimit, bufferBudget: BufferBudget, logger: Logger) {
        self.ingest = ingest
        self.refusals = refusals
        self.bufferBudget = bufferBudget
        self.logger = logger
    }

    /// Returns the responder for single events. `route` determines which JSON members are required, accepted and
    /// ignored.
    func post(_ route: EventRoute) -> CallerResponder {
        { [self] request, caller in
            respond(request, of: caller) { () throws(ProblemResponse) in
                let route = caller.isService ? .service : route
                let (submission, buffer) = try decode(
                    request, of: caller, eventCount: { _ in 1 }
                ) { body, headers throws(BodyRefusal) in
                    let submission = try EventSubmission.decode(body, route: route, headers: headers)
                    try submission.checkDriver(caller)
                    return submission
                }
                return { [self] in
                    let sender = caller.sender
                    let ingested = await ingest.ingest(
                        submission, of: sender.driver(of: submission), from: sender.service,
                        receivedAt: request.receivedAt, appVersion: appVersion(request))
                    refusals.charge(caller.driver, refused: ingested.outcome.isRefusal ? 1 : 0)
                    withExtendedLifetime(buffer) {}
                    return withQuotas(response(ingested, request), of: caller)
                }
            }
        }
    }

    /// Calls `work`, which decodes the request without waiting and returns the closure for the reply. If `work` throws,
    /// the reply is the response to the error.
    func respond(
        _ request: Request, of caller: Caller, _ work: () throws(ProblemResponse) -> RequestWork
    ) -> Reply {
        do throws(ProblemResponse) {
            return .work(try work())
        } catch {
            return .response(withQuotas(error.response(requestID: request.id), of: caller))
        }
    }

    /// Returns the version of the app that sent the request. If no settings rule depends on the version, returns nil
    /// without reading the header field.
    func appVersion(_ request: Request) -> AppVersion? {
        ingest.dependsOnAppVersion ? request.appVersion : nil
    }

    /// Adds quotas to a response, because every response to a known driver must have them (contract, section 4). A
    /// driver's response without quotas gets those of both event limits.
    ///
    /// A response to a service gets the quota and the policy of the limit for services. The policy is added here,
    /// because the route adds only the policies of drivers' limits.
    func withQuotas(_ response: consuming Response, of caller: Caller) -> Response {
        if caller.isService {
            let quota = ingest.quota(of: caller.driver, in: .serviceEvents)
            if response.rateLimit == nil { response.rateLimit = RateLimitValues.rateLimit([(.serviceEvents, quota)]) }
            if let policy = RateLimitValues.policy(.serviceEvents, quota) {
                response.fields.append("RateLimit-Policy", policy)
            }
        } else if response.rateLimit == nil {
            response.rateLimit = RateLimitValues.rateLimit(ingest.quotas(of: caller.driver))
        }
        return response
    }

    /// Decodes the body. Throws without decoding it if the driver has reached the limit on refused events
    /// (`RefusalLimit`). A body may have 10 KiB per event. Each further KiB is charged like one refused event.
    ///
    /// If decompression made the body longer, reserves memory for it in the driver's share of the BufferBudget. The
    /// caller must keep the returned reservation until the events are stored.
    func decode<Value>(
        _ request: Request, of caller: Caller, eventCount: (Value) -> Int,
        _ decoded: ([UInt8], EventHeaders) throws(BodyRefusal) -> Value
    ) throws(ProblemResponse) -> (value: Value, buffer: BufferReservation?) {
        if let quota = refusals.exhausted(by: caller.driver) { throw .tooManyRefusals(quota) }
        var bytes = 0
        do throws(ProblemResponse) {
            let body = try BodyDecoding.json(request, byteCount: &bytes)
            var buffer: BufferReservation?
            if bytes > request.body.count {
                buffer = bufferBudget.reserve(bytes, for: caller.driver.rawValue)
                guard buffer != nil else {
                    // The body is refused because the driver has too many concurrent requests. Charge one refusal, and
                    // nothing for the body's length.
                    bytes = 0
                    throw .tooManyRequestsUnderWay
                }
            }
            let headers = try EventHeaders(request.fields)
            do throws(BodyRefusal) {
                let value = try decoded(body, headers)
                refusals.charge(caller.driver, bytes: bytes, events: eventCount(value))
                return (value, buffer)
            } catch {
                throw ProblemResponse(error)
            }
        } catch {
            // Charge a body that is refused as a whole like one refused event.
            refusals.charge(caller.driver, bytes: bytes, events: 1, refused: 1)
            throw error
        }
    }

    private func response(_ ingested: Ingested, _ request: Request) -> Response {
        var response: Response
        do throws(ProblemResponse) {
            response = Self.response(try eventResponse(ingested, request))
        } catch {
            response = error.response(requestID: request.id)
        }
        response.rateLimit = RateLimitValues.rateLimit(ingested)
        return response
    }

    private static func response(_ event: EventResponse) -> Response {
        var response = Response(
            status: .ok, fields: Fields([("Content-Type", "application/json")]), body: .bytes(event.encoded()))
        if event.status == .alreadyProcessed { response.fields.append("Idempotent-Replayed", "true") }
        return response
    }

    /// Returns the response to an app that sent the right verification code. The request contains no event, so the
    /// server made one. `outcome` is the outcome of that event.
    func confirmationResponse(
        _ outcome: EventOutcome, of driver: DriverID, _ request: Request
    ) throws(ProblemResponse) -> Response {
        let quota = ingest.quota(of: driver, in: .sessionEvents)
        var response = Self.response(
            try eventResponse(Ingested(outcome: outcome, limitClass: .sessionEvents, quota: quota), request))
        response.fields.append("Cache-Control", "no-store")
        return response
    }

    /// Returns the result of one event for the client. If the store failed, logs the details, because the client must
    /// not see them.
    func eventResponse(_ ingested: Ingested, _ request: Request) throws(ProblemResponse) -> EventResponse {
        switch ingested.outcome {
        case .stored(let event): return EventResponse(event, .ok)
        case .replayed(let event): return EventResponse(event, .alreadyProcessed)
        case .rateLimited: throw .rateLimited(ingested.quota)
        case .keyReused: throw .keyReused
        case .sessionNotFound: throw .sessionNotFound
        case .driverNotFound: throw .driverNotFound
        case .failed(let failure):
            logger.storeFailed(failure, request)
            throw ProblemResponse(failure)
        }
    }
}

extension Caller {
    var sender: EventSender { isService ? .service(driver) : .driver(driver) }
}

extension EventSubmission {
    /// Throws `otherDriver` if a driver's app names another driver.
    func checkDriver(_ caller: Caller) throws(BodyRefusal) {
        if let driverID, !caller.isService, DriverID(driverID) != caller.driver { throw .otherDriver }
    }
}

extension EventResponse {
    fileprivate init(_ event: StoredEvent, _ status: Status) {
        self.init(
            status: status, eventID: event.eventID, state: event.journey.state, endedBy: event.journey.endedBy,
            verdict: event.verdict)
    }
}

extension EventHeaders {
    /// Reads the header fields that apply to an event. Throws if one of these fields is repeated, because it would be
    /// undefined which value applies.
    init(_ fields: Fields) throws(ProblemResponse) {
        self.init(
            idempotencyKey: try Self.single("Idempotency-Key", in: fields),
            sentAt: try Self.single("X-Sent-At", in: fields))
    }

    private static func single(_ name: String, in fields: Fields) throws(ProblemResponse) -> String? {
        guard fields.count(of: name) <= 1 else {
            throw ProblemResponse(
                .invalid(InvalidFields([FieldError(pointer: name, detail: "must not be repeated")])))
        }
        return fields.first(name)
    }
}

extension Request {
    var receivedAt: Moment { Moment(millisecondsSinceEpoch: receivedAtMilliseconds) }

    /// The version of the app that sent the request. Nil if `X-App-Version` is missing, repeated or not a version. If
    /// the version is nil, settings rules that depend on it do not match.
    var appVersion: AppVersion? {
        fields.count(of: "X-App-Version") == 1 ? fields.first("X-App-Version").flatMap { AppVersion($0) } : nil
    }
}
