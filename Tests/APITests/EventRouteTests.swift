// Tests of the event routes' responses, without a socket (contract, sections 3 to 5).

import Engine
import Foundation
import HTTP1
import Identity
import JourneyModel
import TestSupport
import Testing

@testable import API
@testable import HTTPServer

struct EventRouteTests {
    private static let json = [("Authorization", "Bearer good"), ("Content-Type", "application/json")]
    private static let event =
        #"{"event_id":"e1","event":"chargerTargeted","occurred_at":"2026-11-16T12:00:00Z"}"#

    private func post(
        _ body: String, to template: String = "/native/events", fields: [(String, String)] = json,
        _ api: ScriptedAPI = ScriptedAPI()
    ) async -> Response {
        guard let route = api.routes.first(where: { $0.method == .post && $0.template == template }) else {
            return Response(status: .notFound)
        }
        return await route.response(
            to: Request(
                method: .post, path: template, fields: Fields(fields), body: Array(body.utf8), id: "r1",
                receivedAtMilliseconds: api.clock.now.millisecondsSinceEpoch))
    }

    @Test func anEventIsStoredOnceAndAnsweredTwice() async {
        let api = ScriptedAPI()
        let first = await post(Self.event, api)
        #expect(first.status == .ok)
        #expect(
            first.text == #"{"status":"ok","event_id":"e1","session":{"state":"IDLE","transition":"none"}}"#)
        let second = await post(Self.event, api)
        #expect(second.fields.first("Idempotent-Replayed") == "true")
        #expect(second.text.hasPrefix(#"{"status":"already_processed""#))
        #expect(second.fields.first("RateLimit") == #""presession";r=29;t=60"#)
    }

    @Test(
        arguments: [
            ("{", [], 400), (#"{"event":"reset"}"#, [], 400), (event, [("Content-Encoding", "br")], 415),
            (event, [("Idempotency-Key", "a"), ("Idempotency-Key", "b")], 400),
        ] as [(String, [(String, String)], Int)])
    func aRefusalSaysHowTheDriverStands(_ body: String, _ fields: [(String, String)], _ status: Int) async {
        let response = await post(body, fields: Self.json + fields)
        #expect(response.status.code == status)
        #expect(response.fields.first("RateLimit-Policy") == #""session";q=60;w=60, "presession";q=30;w=60"#)
        #expect(response.fields.first("RateLimit") == #""session";r=60;t=0, "presession";r=30;t=0"#)
    }

    @Test func whoIsNotSignedInHasNoQuota() async {
        let response = await post(Self.event, fields: [("Content-Type", "application/json")])
        #expect(response.status == .unauthorized)
        #expect(response.fields.first("RateLimit") == nil)
        #expect(response.fields.first("WWW-Authenticate") == #"Bearer realm="dwell""#)
    }

    @Test func aLimitedEventOfABatchSaysHowLongToWait() async {
        let events = (1...31).map {
            #"{"event_id":"e\#($0)","event":"chargerTargeted","occurred_at":"2026-11-16T12:00:00Z"}"#
        }
        let response = await post(
            #"{"events":[\#(events.joined(separator: ","))]}"#, to: "/native/events/batch")
        #expect(response.status == .ok)
        #expect(response.text.contains(#""code":"rate_limited""#))
        #expect(response.text.contains(#""retry_after":60"#))
    }

    private static func batch(_ count: Int, _ event: (Int) -> String) -> String {
        #"{"events":[\#((0..<count).map(event).joined(separator: ","))]}"#
    }

    @Test func ofManyBadEventsAFewErrorsAreToldAndTheOthersCounted() async throws {
        let response = await post(Self.batch(500) { _ in "{}" }, to: "/native/events/batch")
        #expect(response.status == .ok)
        #expect(response.text.utf8.count < 250_000)
        let results = try #require(try JSONValue.parse(Array(response.text.utf8))["results"])
        guard case .array(let elements) = results else {
            Issue.record("\(results)")
            return
        }
        #expect(elements.count == 500)
        let told = elements.map { element -> Int in
            if case .array(let errors)? = element["errors"] { errors.count } else { 0 }
        }
        #expect(told.reduce(0, +) == 100)
        let omitted = elements.map { element -> Int in
            if case .number(let count)? = element["errors_omitted"] { Int(count) ?? 0 } else { 0 }
        }
        #expect(zip(told, omitted).allSatisfy { $0 + $1 == told[0] && told[0] > 0 })
    }

    @Test func whatIsRefusedIsChargedAndTooMuchOfItIsNotLookedAt() async {
        let api = ScriptedAPI()
        for body in [Self.batch(500) { _ in "{}" }, Self.batch(500) { _ in "7" }] {
            #expect(await post(body, to: "/native/events/batch", api).status == .ok)
        }
        let refused = await post(Self.batch(1) { _ in "{}" }, to: "/native/events/batch", api)
        #expect(refused.status == .tooManyRequests)
        #expect(refused.fields.first("Retry-After") != nil)
        #expect(await post(Self.event, api).status == .tooManyRequests)
    }

    @Test(arguments: ["{}", "{", #"{"event":"reset","driver_id":"x"}"#])
    func `a refused event that is sent alone is charged once, as in a batch`(_ body: String) async {
        let api = ScriptedAPI()
        for _ in 0..<600 { #expect(await post(body, api).status != .tooManyRequests) }
        #expect(await post(body, api).status == .tooManyRequests)
    }

    @Test func `ten repeats in one body are charged as one refused event`() async {
        let api = ScriptedAPI()
        // The first batch has 499 repeats, which cost 49. Each of the other twelve batches has 500 repeats, which cost
        // 50. The sum of 649 exceeds the limit of 600.
        for _ in 0..<13 {
            #expect(await post(Self.batch(500) { _ in Self.event }, to: "/native/events/batch", api).status == .ok)
        }
        #expect(await post(Self.event, api).status == .tooManyRequests)
    }

    @Test(arguments: [
        "[" + String(repeating: " ", count: 1_000_000),
        #"{"events":[\#(event)],"x":"\#(String(repeating: "x", count: 1_000_000))"}"#,
    ]) func aLargeBodyThatHoldsFewEventsIsChargedByItsBytes(_ body: String) async {
        let api = ScriptedAPI()
        _ = await post(body, to: "/native/events/batch", api)
        #expect(await post(Self.event, api).status == .tooManyRequests)
    }

    /// If a body is too large for its number of events, its excess bytes are charged. They are charged before the
    /// events are stored. Otherwise many more large bodies could be decoded in the meantime.
    @Test func `excess bytes are charged before the events are stored`() async throws {
        let api = ScriptedAPI()
        let body = #"{"events":[\#(Self.event)],"x":"\#(String(repeating: "x", count: 1_000_000))"}"#
        let first = try reply(Array(body.utf8), api)
        guard case .response(let second) = try reply(Array(body.utf8), api) else {
            Issue.record("the second body was decoded")
            return
        }
        #expect(second.status == .tooManyRequests)
        #expect(await first.response().status == .ok)
    }

    /// One event and 100,000 spaces.
    private static let compressedBatch: [UInt8] = Array(
        Data(
            base64Encoded:
                "H4sIAAAAAAACA+3JMQqDQBQE0KuErSO4FhaewyohiOiSpElgY9KId4/iJSze4/OZYeaQfuk1fUJznffYPcfQhBTDee9rGR59vqfc"
                + "bn9K47q8h+Gbcxq7ftursqqLGItYt7FqynK9S1huJwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAOCwlj+9v4gt/YYBAA==") ?? Data())

    @Test func `decompressed bodies count towards the driver's share of the budget`() async throws {
        let api = ScriptedAPI(bufferedBytesMax: 250_000)
        let gzip = [("Content-Encoding", "gzip")]
        var replies: [Reply] = []
        for _ in 0..<2 { replies.append(try reply(Self.compressedBatch, fields: gzip, api)) }
        #expect(api.bufferBudget.bytesHeld > 200_000)
        // The two bodies fill the buffers, so every other body is rejected. The driver is not at fault, so a rejected
        // body costs only one refused event. If its 100,000 bytes counted, ten bodies would use up the limit of 600
        // events.
        for _ in 0..<10 {
            guard case .response(let refused) = try reply(Self.compressedBatch, fields: gzip, api) else {
                Issue.record("the third body was accepted")
                return
            }
            #expect(refused.status == .serviceUnavailable)
            #expect(refused.fields.first("Retry-After") == "1")
        }
        for reply in replies { #expect(await reply.response().status == .ok) }
        replies = []
        #expect(api.bufferBudget.bytesHeld == 0)
        #expect(try await reply(Self.compressedBatch, fields: gzip, api).response().status == .ok)
    }

    @Test func `a driver has a limited number of batches under way`() async throws {
        let api = ScriptedAPI()
        let body = Array(#"{"events":[\#(Self.event)]}"#.utf8)
        var replies: [Reply] = []
        for _ in 0..<RequestsUnderWay.perDriverMax { replies.append(try reply(body, api)) }
        guard case .response(let refused) = try reply(body, api) else {
            Issue.record("a batch beyond the limit was accepted")
            return
        }
        #expect(refused.status == .serviceUnavailable)
        #expect(refused.fields.first("Retry-After") == "1")
        for reply in replies { #expect(await reply.response().status == .ok) }
        replies = []
        #expect(try await reply(body, api).response().status == .ok)
    }

    @Test func `only failures of the store are logged as its errors`() {
        let lines = LoggedLines()
        let request = Request(
            method: .post, path: "/native/events", fields: Fields(Self.json), id: "r1", receivedAtMilliseconds: 0)
        lines.logger.storeFailed(.cancelled, request)
        lines.logger.storeFailed(.driverErased, request)
        #expect(lines.lines == [])
        lines.logger.storeFailed(.unavailable("full"), request)
        #expect(lines.lines.count == 1)
    }

    @Test(arguments: [
        (StoreFailure.unavailable("full"), ProblemCode.storeUnavailable), (.unknown("lost"), .internalError),
    ])
    func `a registration that the store cannot complete is a problem and a log line`(
        failure: StoreFailure, code: ProblemCode
    ) async throws {
        let (store, lines) = (MemoryEventStore(), LoggedLines())
        store.fail(with: failure)
        let handler = SessionsHandler(store: store, logger: lines.logger)
        let request = Request(
            method: .post, path: "/native/sessions", fields: Fields(Self.json),
            body: Array(#"{"session_id":"s"}"#.utf8), id: "r1", receivedAtMilliseconds: 0)
        let thrown = await #expect(throws: ProblemResponse.self) {
            try await handler.post(request, Caller(driver: DriverID("driver")))
        }
        let problem = try #require(thrown).problem(requestID: "r1")
        #expect(problem.code == code)
        #expect(problem.detail.contains("session"))
        #expect(lines.lines.count == 1)
    }

    @Test func `a compressed body with a wrong checksum is charged by its decompressed bytes`() async throws {
        let api = ScriptedAPI()
        var body = Self.compressedBatch
        // A gzip body ends with four bytes of checksum and four bytes of length (RFC 1952, section 2.3).
        body[body.count - 8] ^= 1
        // Each decompressed body exceeds the permitted 10 KiB by 88 KiB. It costs 88 refused events for these KiB, and
        // one because it is rejected. Seven bodies cost 623, which exceeds the limit of 600.
        for _ in 0..<7 {
            let refused = try await reply(body, fields: [("Content-Encoding", "gzip")], api).response()
            #expect(refused.status == .badRequest)
        }
        #expect(await post(Self.event, api).status == .tooManyRequests)
    }

    private func reply(
        _ body: [UInt8], fields: [(String, String)] = [], _ api: ScriptedAPI
    ) throws -> Reply {
        let route = try #require(api.routes.first { $0.method == .post && $0.template == "/native/events/batch" })
        return route.prepared.responder(
            Request(
                method: .post, path: route.template, fields: Fields(Self.json + fields), body: body,
                bodyBytesMax: route.bodyBytesMax, id: "r1", receivedAtMilliseconds: api.clock.now.millisecondsSinceEpoch
            ))
    }

    @Test func aDaysQueueIsNotTakenForRefusals() async {
        let api = ScriptedAPI()
        let body = Self.batch(500) {
            #"{"event_id":"e\#($0)","event":"reset_seen","occurred_at":"2026-11-16T12:00:00Z"}"#
        }
        #expect(await post(body, to: "/native/events/batch", api).status == .ok)
        #expect(await post(Self.batch(1) { _ in Self.event }, to: "/native/events/batch", api).status == .ok)
    }
}
