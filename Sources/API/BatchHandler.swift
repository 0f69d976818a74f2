// POST /native/events/batch. The response has one result per event, in the order of the events. Each event gets the
// result that it would get in a request of its own (contract, section 3).

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting

struct BatchHandler: Sendable {
    static let template = "/native/events/batch"

    /// The maximum number of field errors in a response, for all events of the batch together. Further field errors are
    /// counted in the response, but not listed.
    private static let errorsMax = 100

    let events: EventHandlers
    let refused: RefusedRequests
    let batches = RequestsUnderWay()

    var post: CallerResponder {
        { request, caller in
            events.respond(request, of: caller) { () throws(ProblemResponse) in
                let underWay = try isLimited(caller) ? batches.begin(caller.driver) : nil
                let (decoded, buffer) = try events.decode(
                    request, of: caller, eventCount: \.count
                ) { body, headers throws(BodyRefusal) in
                    try EventBatch.decode(
                        body, route: caller.isService ? .service : .native, sentAt: headers.sentAt
                    ).map { checked($0, of: caller) }
                }
                return {
                    let submissions = decoded.compactMap { try? $0.get() }
                    let ingested = await events.ingest.ingest(
                        submissions, from: caller.sender, receivedAt: request.receivedAt,
                        appVersion: events.appVersion(request))
                    let refusedCount = decoded.count - submissions.count + ingested.count(where: \.outcome.isRefusal)
                    events.refusals.charge(
                        caller.driver, refused: refusedCount, repeats: ingested.count(where: \.outcome.isRepeat))
                    withExtendedLifetime((buffer, underWay)) {}
                    return events.withQuotas(response(decoded, ingested, of: caller.driver, request), of: caller)
                }
            }
        }
    }

    /// Whether the number of the caller's concurrent batches is limited. Services have no limit, because they are
    /// trusted and post for many drivers. Drivers have no limit if the limit on refused events is off.
    private func isLimited(_ caller: Caller) -> Bool {
        !caller.isService && events.ingest.quota(of: caller.driver, in: .refusals).limit > 0
    }

    private func checked(
        _ event: Result<EventSubmission, BodyRefusal>, of caller: Caller
    ) -> Result<EventSubmission, BodyRefusal> {
        Result { () throws(BodyRefusal) in
            let submission = try event.get()
            try submission.checkDriver(caller)
            return submission
        }
    }

    private func response(
        _ decoded: [Result<EventSubmission, BodyRefusal>], _ ingested: [Ingested], of driver: DriverID,
        _ request: Request
    ) -> Response {
        var remaining = ingested[...]
        var errorsLeft = Self.errorsMax
        let results = decoded.map { event -> BatchResult in
            let result: BatchResult =
                switch event {
                case .failure(let refusal): .problem(Problem(refusal, requestID: request.id, errorsMax: errorsLeft))
                case .success: self.result(remaining.removeFirst(), request)
                }
            guard case .problem(var problem) = result else { return result }
            problem.listErrors(atMost: errorsLeft)
            errorsLeft -= problem.errors.count
            return .problem(problem)
        }
        note(results, of: driver, request)
        var response = Response(
            status: .ok, fields: Fields([("Content-Type", "application/json")]),
            body: .bytes(BatchResult.encode(results)))
        response.rateLimit = RateLimitValues.rateLimit(ingested)
        return response
    }

    private func result(_ ingested: Ingested, _ request: Request) -> BatchResult {
        do throws(ProblemResponse) {
            return .response(try events.eventResponse(ingested, request))
        } catch {
            return .problem(error.problem(requestID: request.id))
        }
    }

    /// Records each refused event for the operator page.
    private func note(_ results: [BatchResult], of driver: DriverID, _ request: Request) {
        var counts: [Int: Int] = [:]
        for case .problem(let problem) in results { counts[problem.code.status, default: 0] += 1 }
        for (status, count) in counts {
            refused.note(
                Status(status), driver, route: Self.template, requestID: request.id, at: request.receivedAt,
                count: count)
        }
    }
}
