// Tests of the exact bytes of responses (contract, sections 3 and 5).

import JourneyModel
import Testing

struct ResponseTests {
    private func text(_ bytes: [UInt8]) -> String {
        String(decoding: bytes, as: UTF8.self)
    }

    @Test("An event's answer: reason only with a rejection, implied only with a reset")
    func eventAnswers() {
        let applied = EventResponse(status: .ok, eventID: "e1", state: .inTransit, verdict: .applied)
        #expect(
            text(applied.encoded())
                == #"{"status":"ok","event_id":"e1","session":{"state":"IN_TRANSIT","transition":"applied"}}"#)
        let rejected = EventResponse(
            status: .alreadyProcessed, eventID: "a\"b", state: .idle, verdict: .rejected(.notAnchored))
        #expect(
            text(rejected.encoded())
                == #"{"status":"already_processed","event_id":"a\"b","session":{"state":"IDLE","transition":"rejected","#
                + #""reason":"not_anchored"}}"#)
        let implied = EventResponse(
            status: .ok, eventID: "e1", state: .nearCharger, verdict: Verdict(.applied, implied: .reset))
        #expect(
            text(implied.encoded())
                == #"{"status":"ok","event_id":"e1","session":{"state":"NEAR_CHARGER","transition":"applied","#
                + #""implied":["reset"]}}"#)
        let none = EventResponse(status: .ok, eventID: "e1", state: .sessionEnded, verdict: .none)
        #expect(text(none.encoded()).contains(#""transition":"none"}"#))
    }

    @Test("A batch answers each event as the single call would, and adds status_code")
    func batch() throws {
        let answer = EventResponse(status: .ok, eventID: "e1", state: .idle, verdict: .none)
        let problem = Problem(.sessionNotFound, detail: "Session not found.", requestID: "r1")
        let root = try JSONValue.parse(BatchResult.encode([.response(answer), .problem(problem)]))
        let results = try #require(root["results"]).elements
        #expect(results.count == 2)
        for (result, single) in zip(results, [answer.encoded(), problem.encoded()]) {
            guard case .object(let members) = result else {
                Issue.record("\(result)")
                return
            }
            #expect(try JSONValue.object(members.filter { $0.name != "status_code" }) == JSONValue.parse(single))
        }
        #expect(results.map { $0["status_code"] } == [.number("200"), .number("404")])
    }

    @Test("A problem has every member of the contract; error is a copy of detail")
    func problem() {
        let refusal = BodyRefusal.invalid(
            InvalidFields([FieldError(pointer: "/occurred_at", detail: "is required")]))
        #expect(
            text(Problem(refusal, requestID: "r1").encoded())
                == #"{"type":"urn:dwell:problem:validation_failed","#
                + #""title":"Invalid request","status":400,"#
                + #""detail":"/occurred_at is required.","code":"validation_failed","request_id":"r1","#
                + #""errors":[{"pointer":"/occurred_at","detail":"is required"}],"error":"/occurred_at is required.","#
                + #""retryable":false}"#)
        let malformed = Problem(.malformedJSON(JSONError(.unexpectedEnd, offset: 3)))
        #expect(malformed.code == .malformedJSON)
        #expect(!text(malformed.encoded()).contains("errors"))
    }

    @Test(
        "Each code keeps its status; only what a repeat can mend is retryable",
        arguments: [
            (.badRequest, "bad_request", 400), (.malformedJSON, "malformed_json", 400),
            (.validationFailed, "validation_failed", 400), (.unauthorized, "unauthorized", 401),
            (.forbidden, "forbidden", 403), (.notFound, "not_found", 404), (.sessionNotFound, "session_not_found", 404),
            (.driverNotFound, "driver_not_found", 404), (.wrongCode, "wrong_code", 400),
            (.codeUnavailable, "code_unavailable", 409), (.sessionNotActive, "session_not_active", 409),
            (.methodNotAllowed, "method_not_allowed", 405), (.requestTimeout, "request_timeout", 408),
            (.preconditionFailed, "precondition_failed", 412), (.contentTooLarge, "content_too_large", 413),
            (.uriTooLong, "uri_too_long", 414),
            (.unsupportedMediaType, "unsupported_media_type", 415), (.expectationFailed, "expectation_failed", 417),
            (.idempotencyKeyReused, "idempotency_key_reused", 422), (.rateLimited, "rate_limited", 429),
            (.headerFieldsTooLarge, "header_fields_too_large", 431), (.internalError, "internal_error", 500),
            (.notImplemented, "not_implemented", 501), (.serviceUnavailable, "service_unavailable", 503),
            (.storeUnavailable, "store_unavailable", 503), (.upstreamUnavailable, "upstream_unavailable", 503),
            (.httpVersionNotSupported, "http_version_not_supported", 505),
        ] as [(ProblemCode, String, Int)])
    func codes(_ code: ProblemCode, _ rawValue: String, _ status: Int) {
        #expect(code.rawValue == rawValue)
        #expect(code.status == status)
        #expect(code.isRetryable == [408, 429, 500, 503].contains(status))
        #expect(!code.title.isEmpty)
    }

    @Test("A session's registration: session_id required, all errors at once")
    func sessions() throws {
        let full = try SessionSubmission.decode(
            Array(#"{"session_id":"s","charger_id":"c","merchant_id":null,"x":1}"#.utf8))
        #expect(full == SessionSubmission(sessionID: "s", chargerID: "c"))
        let error = #expect(throws: BodyRefusal.self) {
            try SessionSubmission.decode(Array(#"{"charger_id":7,"merchant_id":""}"#.utf8))
        }
        guard case .invalid(let fields) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(fields.errors.map(\.pointer) == ["/session_id", "/charger_id", "/merchant_id"])
        let root = InvalidFields([FieldError(pointer: "", detail: "must be a JSON object")])
        #expect(throws: BodyRefusal.invalid(root)) { try SessionSubmission.decode(Array("[]".utf8)) }
    }
}
