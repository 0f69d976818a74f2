// POST /native/events and the two v1 routes that mean the same: decode, one call, encode.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Logging

struct EventHandlers: Sendable {
    let ingest: Ingest
    let limits: RateLimits
    let logger: Logger

    /// One event, in the form of that route.
    func post(_ route: EventRoute) -> CallerHandler {
        { request, caller throws(Problem) in
            let body = try BodyDecoding.json(request, bytesMax: RequestLimits.eventBytesMax)
            let headers = try EventHeaders(request.fields)
            let submission: EventSubmission
            switch EventSubmission.decode(body, route: route, headers: headers) {
            case .success(let decoded): submission = decoded
            case .failure(let rejection): throw Problem(rejection)
            }
            let ingested = await ingest.ingest(
                submission, of: caller.driver,
                receivedAt: Moment(millisecondsSinceEpoch: request.receivedAtMilliseconds))
            return answer(ingested, request)
        }
    }

    private func answer(_ ingested: Ingested, _ request: Request) -> Response {
        var response: Response
        if case .acknowledged(let acknowledgement) = ingested.answer {
            response = Response(
                status: .ok, fields: Fields([("Content-Type", "application/json")]),
                body: .bytes(EventAnswer(acknowledgement).encoded()))
            if acknowledgement.isRepeat { response.fields.append("Idempotent-Replayed", "true") }
        } else {
            log(ingested, request)
            response = Problem(ingested)?.response(requestID: request.id) ?? Response(status: .internalServerError)
        }
        if let standing = RateLimitFields.standing([ingested]) { response.fields.append("RateLimit", standing) }
        return response
    }

    /// What the client may not hear, for whoever runs the server.
    func log(_ ingested: Ingested, _ request: Request) {
        guard case .failed(let failure) = ingested.answer else { return }
        let (outcome, reason) =
            switch failure {
            case .unavailable(let reason): ("not stored", reason)
            case .unknown(let reason): ("may or may not be stored", reason)
            }
        logger.error(
            "the store failed",
            metadata: ["request_id": "\(request.id)", "outcome": "\(outcome)", "reason": "\(reason)"])
    }
}
