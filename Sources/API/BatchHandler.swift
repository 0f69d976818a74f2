// POST /native/events/batch: each event is answered as if it had come alone, in order, and one bad event
// never sinks its neighbours (contract, section 3).

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel

struct BatchHandler: Sendable {
    let events: EventHandlers

    var post: CallerHandler {
        { request, caller throws(ProblemAnswer) in
            let body = try BodyDecoding.json(request, bytesMax: RequestLimits.batchBytesMax)
            let headers = try EventHeaders(request.fields)
            let decoded: [Result<EventSubmission, BodyRefusal>]
            do throws(BodyRefusal) {
                decoded = try EventBatch.decode(body, sentAt: headers.sentAt)
            } catch {
                throw ProblemAnswer(error)
            }
            let ingested = await events.ingest.ingest(
                decoded.compactMap { try? $0.get() }, of: caller.driver, receivedAt: request.receivedAt)
            return answer(decoded, ingested, request)
        }
    }

    private func answer(
        _ decoded: [Result<EventSubmission, BodyRefusal>], _ ingested: [Ingested], _ request: Request
    ) -> Response {
        var remaining = ingested[...]
        let results = decoded.map { event -> BatchResult in
            switch event {
            case .failure(let refusal): .problem(ProblemAnswer(refusal).problem(requestID: request.id))
            case .success: result(remaining.removeFirst(), request)
            }
        }
        var response = Response(
            status: .ok, fields: Fields([("Content-Type", "application/json")]),
            body: .bytes(BatchResult.encode(results)))
        if let standing = RateLimitFields.standing(ingested) { response.fields.append("RateLimit", standing) }
        return response
    }

    private func result(_ ingested: Ingested, _ request: Request) -> BatchResult {
        switch events.outcome(of: ingested, request) {
        case .success(let acknowledgement): .answer(EventAnswer(acknowledgement))
        case .failure(let answer): .problem(answer.problem(requestID: request.id))
        }
    }
}
