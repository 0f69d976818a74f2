// Tests of the envelope of a batch (contract, section 3). A batch has 1 to 500 events and gets one result for each. An
// invalid event does not affect the others.

import JourneyModel
import Testing

struct BatchDecodingTests {
    private let good = String(decoding: EventDecodingTests.body(), as: UTF8.self)

    private func decode(_ events: [String]) throws -> [Result<EventSubmission, BodyRefusal>] {
        try EventBatch.decode(Array("{\"events\":[\(events.joined(separator: ","))]}".utf8))
    }

    private func refusal(_ body: String) -> BodyRefusal? {
        do throws(BodyRefusal) {
            _ = try EventBatch.decode(Array(body.utf8))
            return nil
        } catch {
            return error
        }
    }

    @Test("Results come in order; each is what the single call would have answered")
    func order() throws {
        let bad = String(decoding: EventDecodingTests.body(["occurred_at": "\"x\"", "sequence": "-1"]), as: UTF8.self)
        let results = try decode([good, bad, good, "7"])
        #expect(results.count == 4)
        #expect(try results[0].get().eventID == "e1")
        guard case .failure(.invalid(let fields)) = results[1] else {
            Issue.record("the second is valid")
            return
        }
        #expect(fields.errors.map(\.pointer) == ["/occurred_at", "/sequence"])
        #expect(throws: Never.self) { try results[2].get() }
        let notAnObject = InvalidFields([FieldError(pointer: "", detail: "must be a JSON object")])
        #expect(results[3] == .failure(.invalid(notAnObject)))
    }

    @Test(
        "What the JSON door refuses in one event is that event's own result",
        arguments: [
            (#"{"a":1,"a":2}"#, .duplicateName), (#"{"a":"\ud800"}"#, .loneSurrogate),
            (#"{"sequence":1\#(String(repeating: "0", count: 64))}"#, .numberTooLong),
            (#"{"metadata":{"a":[0.\#(String(repeating: "0", count: 64))e9]}}"#, .numberTooLong),
            (String(repeating: "[", count: 100) + "\"]\"" + String(repeating: "]", count: 100), .tooDeep),
        ] as [(String, JSONError.Reason)])
    func neighbours(_ bad: String, _ reason: JSONError.Reason) throws {
        let results = try decode([good, bad, good])
        #expect(throws: Never.self) { try results[0].get() }
        #expect(throws: Never.self) { try results[2].get() }
        guard case .failure(.malformedJSON(let error)) = results[1] else {
            Issue.record("\(bad) was read")
            return
        }
        #expect(error.reason == reason)
    }

    @Test("Bytes that are no UTF-8 in one event are that event's own result")
    func invalidUTF8() throws {
        let body = Array("{\"events\":[\(good),{\"a\":\"".utf8) + [0xFF] + Array("\"},\(good)]}".utf8)
        let results = try EventBatch.decode(body)
        #expect(results.map { (try? $0.get()) != nil } == [true, false, true])
    }

    @Test("1 to 500 events")
    func count() throws {
        #expect(try decode(Array(repeating: good, count: 500)).count == 500)
        let error = InvalidFields([FieldError(pointer: "/events", detail: "must be an array of 1 to 500 events")])
        #expect(throws: BodyRefusal.invalid(error)) { try decode(Array(repeating: "1", count: 501)) }
        #expect(throws: BodyRefusal.invalid(error)) { try decode([]) }
    }

    @Test(
        "What is no envelope is refused as a whole",
        arguments: [
            "{}", "[]", "null", "{\"events\":null}", "{\"events\":{}}", "{\"event\":[{}]}",
        ])
    func noEnvelope(_ body: String) {
        guard case .invalid(let fields) = refusal(body) else {
            Issue.record("\(body) was read")
            return
        }
        #expect(fields.errors.map(\.pointer) == ["/events"])
    }

    @Test(
        "What is not JSON, or names events twice, is refused as a whole",
        arguments: [
            ("{\"events\":[{},]}", .unexpectedByte), ("{\"events\":[{}]", .unexpectedEnd),
            ("{\"events\":[1],\"events\":[2]}", .duplicateName),
            ("{\"x\":{\"a\":1,\"a\":1},\"events\":[1]}", .duplicateName),
            ("{\"events\":[1]} x", .trailingBytes), ("", .unexpectedEnd),
        ] as [(String, JSONError.Reason)])
    func malformed(_ body: String, _ reason: JSONError.Reason) {
        guard case .malformedJSON(let error) = refusal(body) else {
            Issue.record("\(body) was read")
            return
        }
        #expect(error.reason == reason)
    }

    @Test("X-Sent-At is the send time of all; other members of the envelope pass")
    func sendTime() throws {
        let body = Array("{\"app\":\"x\",\"events\":[\(good),\(good)],\"n\":[1]}".utf8)
        let results = try EventBatch.decode(body, sentAt: "2026-11-20T09:00:00Z")
        #expect(
            try results.map { try $0.get().sentAt }
                == .init(repeating: RFC3339.moment(from: "2026-11-20T09:00:00Z"), count: 2))
    }
}
