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
        { request, caller throws(Problem) in
            let body = try BodyDecoding.json(request, bytesMax: RequestLimits.batchBytesMax)
            let decoded: [Result<EventSubmission, DecodingRejection>]
            switch EventBatch.decode(body, headers: try EventHeaders(request.fields)) {
            case .success(let results): decoded = results
            case .failure(let rejection): throw Problem(rejection)
            }
            let ingested = await events.ingest.ingest(
                decoded.compactMap { try? $0.get() }, of: caller.driver,
                receivedAt: Moment(millisecondsSinceEpoch: request.receivedAtMilliseconds))
            return answer(decoded, ingested, request)
        }
    }

    private func answer(
        _ decoded: [Result<EventSubmission, DecodingRejection>], _ ingested: [Ingested], _ request: Request
    ) -> Response {
        var json = Array("{\"results\":[".utf8)
        var remaining = ingested.makeIterator()
        for (index, event) in decoded.enumerated() {
            if index > 0 { json.append(UInt8(ascii: ",")) }
            switch event {
            case .failure(let rejection):
                json += result(Problem(rejection), request)
            case .success:
                guard let next = remaining.next() else { continue }
                json += result(next, request)
            }
        }
        json += Array("]}".utf8)
        var response = Response(
            status: .ok, fields: Fields([("Content-Type", "application/json")]), body: .bytes(json))
        if let standing = RateLimitFields.standing(ingested) { response.fields.append("RateLimit", standing) }
        return response
    }

    private func result(_ ingested: Ingested, _ request: Request) -> [UInt8] {
        if case .acknowledged(let acknowledgement) = ingested.answer {
            return EventAnswer(acknowledgement).encoded(statusCode: 200)
        }
        events.log(ingested, request)
        return Problem(ingested).map { result($0, request) } ?? []
    }

    private func result(_ problem: Problem, _ request: Request) -> [UInt8] {
        problem.body(requestID: request.id, statusCode: problem.code.status)
    }
}
