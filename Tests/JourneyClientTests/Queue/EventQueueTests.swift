// Tests of the queue with scripted responses (docs/client.md). They check which events the queue keeps or drops, and
// when it sends events again. The bytes of an event must not change.

import JourneyClient
import JourneyModel
import TestSupport
import Testing

struct EventQueueTests {
    // MARK: The request

    @Test("one event goes alone, with the headers that the contract asks for, and as an event that the server takes")
    func request() throws {
        let bench = try QueueBench("e1")
        let request = try #require(bench.attempt(at: 5, token: "abc")).request
        #expect(request.method == "POST")
        #expect(request.path == "/native/events")
        #expect(request.fields.map(\.name) == ["Authorization", "Content-Type", "X-Sent-At"])
        #expect(request.fields.map(\.value) == ["Bearer abc", "application/json", RFC3339.text(of: .at(5))])
        let event = try EventSubmission.decode(request.body, route: .native)
        #expect(event.eventID == "e1")
        #expect(event.source == "ios_native")
        #expect(event.occurredAt == .at(0))
        #expect(event.timestamp == .at(0), "timestamp is when it was queued; X-Sent-At is the header's business")
    }

    @Test("the body is byte-identical over retries, restarts and refreshes; only X-Sent-At is new")
    func sameBytes() throws {
        let bench = try QueueBench("e1")
        let body = bench.queue.events[0].body
        let outcomes: [HTTPExchange.Outcome] = [
            .noResponse, .problem(.internalError), .problem(.rateLimited), .answer(502, "<html>"),
        ]
        var seconds = 0.0
        for outcome in outcomes {
            seconds += 100
            let attempt = try #require(bench.attempt(at: seconds))
            #expect(attempt.request.body == body)
            #expect(attempt.request.fields.last?.value == RFC3339.text(of: .at(seconds)))
            _ = bench.report(outcome, of: attempt, at: seconds)
        }
        let restarted = try QueueBench(journaled: bench.queue.events)
        #expect(restarted.attempt(at: seconds)?.request.body == body)
    }

    @Test("several go as one batch of the very same bytes, in order, 30 at most")
    func batch() throws {
        let bench = try QueueBench()
        for index in 0..<40 { try bench.enqueue("e\(index)", at: 0) }
        let attempt = try #require(bench.attempt(at: 1))
        #expect(attempt.request.path == "/native/events/batch")
        #expect(attempt.eventIDs == (0..<30).map { "e\($0)" })
        let bodies = bench.queue.events.prefix(30).map { String(decoding: $0.body, as: UTF8.self) }
        #expect(
            String(decoding: attempt.request.body, as: UTF8.self)
                == "{\"events\":[" + bodies.joined(separator: ",") + "]}")
        #expect(try EventBatch.decode(attempt.request.body).count == 30)
    }

    @Test("there is one attempt at a time, and the outcome of an older one is ignored")
    func oneAtATime() throws {
        let bench = try QueueBench("e1")
        let first = try #require(bench.attempt(at: 1))
        #expect(bench.attempt(at: 2) == nil)
        #expect(bench.queue.nextAttemptAt == nil)
        _ = bench.report(.noResponse, of: first, at: 3)
        let second = try #require(bench.attempt(at: 10))
        #expect(bench.report(.stored("e1"), of: first, at: 11).isEmpty)
        #expect(bench.queue.count == 1)
        _ = bench.report(.stored("e1"), of: second, at: 12)
        #expect(bench.queue.count == 0)
        #expect(bench.attempt(at: 13) == nil)
    }

    // MARK: Events delivered or dropped

    @Test("2xx takes the event out and hands over what the server said, repeats included")
    func delivered() throws {
        for (status, verdict) in [
            (EventResponse.Status.ok, Verdict.applied), (.alreadyProcessed, .rejected(.mustDepartFirst)),
            (.ok, Verdict(.applied, implied: .reset)),
        ] {
            let bench = try QueueBench("e1")
            let answer = EventResponse(status: status, eventID: "e1", state: .inTransit, verdict: verdict)
            let outcome = HTTPExchange.Outcome.response(HTTPExchange.Response(status: 200, body: answer.encoded()))
            #expect(bench.exchange(outcome, at: 1) == [.delivered(eventID: "e1", answer)])
            #expect(bench.queue.count == 0)
        }
    }

    @Test("a 200 that does not name the event is none of this server's: the event stays")
    func captivePortal() throws {
        for body in ["<html>sign in to the hotel</html>", "{}", "{\"status\":\"ok\",\"event_id\":\"e2\"}", ""] {
            let bench = try QueueBench("e1")
            #expect(bench.exchange(.answer(200, body), at: 1) == [.wait(until: .at(2))])
            #expect(bench.queue.count == 1)
        }
    }

    @Test("a newer server's answer still takes the event out, without a verdict")
    func newerServer() throws {
        let bench = try QueueBench("e1")
        let body = "{\"status\":\"ok\",\"event_id\":\"e1\",\"session\":{\"state\":\"SOMEWHERE_NEW\"}}"
        #expect(bench.exchange(.answer(200, body), at: 1) == [.delivered(eventID: "e1", nil)])
    }

    @Test("what can never work is dropped and reported", arguments: [400, 404, 409, 413, 415, 422, 402, 410])
    func hopeless(status: Int) throws {
        let bench = try QueueBench("e1")
        let event = bench.queue.events[0]
        let body = "{\"code\":\"some_code\",\"detail\":\"why\",\"request_id\":\"r-1\"}"
        let outputs = try #require(bench.exchange(.answer(status, body), at: 1))
        guard case .dropped(event, .refused(let refusal)) = outputs.first, outputs.count == 1 else {
            Issue.record("\(outputs)")
            return
        }
        #expect(refusal.status == status)
        #expect(refusal.code == "some_code")
        #expect(refusal.detail == "why")
        #expect(refusal.requestID == "r-1")
        #expect(bench.queue.count == 0)
    }

    // MARK: Retries

    @Test("429, 5xx, 408 and no answer keep the event, to be sent after 1, 2, 4 ... 60 s")
    func backoff() throws {
        let outcomes: [HTTPExchange.Outcome] = [
            .noResponse, .problem(.rateLimited), .problem(.storeUnavailable), .answer(502), .answer(504),
            .problem(.requestTimeout), .noResponse, .noResponse,
        ]
        let bench = try QueueBench("e1")
        var seconds = 0.0
        for (outcome, wait) in zip(outcomes, [1.0, 2, 4, 8, 16, 32, 60, 60]) {
            #expect(bench.exchange(outcome, at: seconds) == [.wait(until: .at(seconds + wait))])
            #expect(bench.attempt(at: seconds + wait - 0.001) == nil)
            #expect(bench.queue.nextAttemptAt == .at(seconds + wait))
            seconds += wait
        }
        #expect(bench.exchange(.stored("e1"), at: seconds)?.count == 1)
        try bench.enqueue("e2", at: seconds)
        #expect(bench.exchange(.noResponse, at: seconds) == [.wait(until: .at(seconds + 1))], "anew after a success")
    }

    @Test("Retry-After counts when it is later, and backoff when that is; an odd value counts for nothing")
    func retryAfter() throws {
        for (value, wait) in [("12", 12.0), ("0", 1), ("3600", 3600), ("99999", 3600), ("-5", 1), ("soon", 1)] {
            let bench = try QueueBench("e1")
            let outputs = bench.exchange(.problem(.rateLimited, retryAfter: value), at: 0)
            #expect(outputs == [.wait(until: .at(wait))], "Retry-After: \(value)")
        }
    }

    @Test("randomness adds up to half of the backoff and takes nothing away")
    func jitter() throws {
        var waits: Set<Int64> = []
        for seed in 1...200 as ClosedRange<UInt64> {
            var random = SeededRandom(seed: seed)
            let bench = try QueueBench("e1")
            let attempt = try #require(bench.attempt(at: 0))
            let outputs = bench.queue.handle(
                .problem(.rateLimited, retryAfter: "7"), of: attempt, at: .at(0), using: &random)
            guard case .wait(let until) = outputs.first else {
                Issue.record("seed \(seed): \(outputs)")
                continue
            }
            waits.insert(until.milliseconds(since: .at(0)))
        }
        #expect(waits.allSatisfy { (7000...7500).contains($0) })
        #expect(waits.count > 50)
    }

    @Test("a clock that is set back does not keep the queue waiting; a small step prolongs the wait by as much")
    func clockSetBack() throws {
        for retryAfter in ["60", "3600"] {
            for setBackSeconds in [31.0, 1800, 86_400] {
                let bench = try QueueBench("e1")
                _ = bench.exchange(.problem(.rateLimited, retryAfter: retryAfter), at: 100_000)
                #expect(bench.attempt(at: 100_001) == nil)
                #expect(bench.attempt(at: 99_971) == nil)
                #expect(bench.attempt(at: 100_000 - setBackSeconds) != nil, "set back by \(setBackSeconds) s")
            }
        }
    }

    @Test("an event that makes the server fail goes behind the others after five times, and alone")
    func stepsAside() throws {
        let bench = try QueueBench("bad")
        var seconds = 0.0
        for _ in 0..<4 {
            seconds += 100
            _ = bench.exchange(.problem(.internalError), at: seconds)
        }
        try bench.enqueue("good", at: seconds)
        #expect(bench.ids == ["bad", "good"])
        _ = bench.exchange(.problem(.internalError), at: seconds + 100)
        #expect(bench.ids == ["good", "bad"])
        let attempt = bench.attempt(at: seconds + 200)
        #expect(attempt?.eventIDs == ["good"])
    }

    // MARK: Responses that are not this server's

    @Test("after a redirect, by a captive portal for example, the events keep their order and their batch")
    func redirects() throws {
        for outcome in [HTTPExchange.Outcome.answer(301), .answer(302, "<html>"), .answer(307, "{\"code\":\"moved\"}")]
        {
            let bench = try QueueBench("e1", "e2")
            for seconds in [100.0, 200, 300, 400, 500, 600, 700] {
                #expect(bench.exchange(outcome, at: seconds)?.count == 1, "\(outcome)")
            }
            #expect(bench.attempt(at: 800)?.eventIDs == ["e1", "e2"])
        }
    }

    @Test("a redirect, or a 4xx without a code, drops nothing: the event is sent again, and goes behind the others")
    func foreignRefusals() throws {
        let page = "<html>no such page</html>"
        let foreign: [HTTPExchange.Outcome] = [
            .answer(404, page), .answer(400, "{}"), .answer(410, "{\"code\":7}"), .answer(413, ""), .answer(199),
            .answer(403, "<html>blocked</html>"), .answer(403, "{}"),
        ]
        for outcome in foreign {
            let bench = try QueueBench("e1")
            for (seconds, wait) in zip([100.0, 200, 300, 400], [1.0, 2, 4, 8]) {
                #expect(bench.exchange(outcome, at: seconds) == [.wait(until: .at(seconds + wait))], "\(outcome)")
            }
            try bench.enqueue("e2", at: 500)
            _ = bench.exchange(outcome, at: 500)
            #expect(bench.ids == ["e2", "e1"], "\(outcome)")
            #expect(bench.exchange(.stored("e2"), at: 600) == [.delivered(eventID: "e2", .stored("e2"))])
            #expect(bench.exchange(.stored("e1"), at: 601) == [.delivered(eventID: "e1", .stored("e1"))])
        }
    }

    @Test("a batch that is answered by another than this server drops nothing; its events are then sent alone")
    func foreignRefusalOfBatch() throws {
        for outcome in [HTTPExchange.Outcome.answer(404, "<html>"), .answer(403, "<html>"), .answer(413, "<html>")] {
            let bench = try QueueBench("e1", "e2")
            #expect(bench.exchange(outcome, at: 0) == [.wait(until: .at(1))])
            #expect(bench.attempt(at: 1)?.eventIDs == ["e1"])
            #expect(bench.ids == ["e1", "e2"])
        }
    }

    // MARK: Batches

    @Test("a batch is judged event by event")
    func batchResults() throws {
        let bench = try QueueBench("e1", "e2", "e3")
        let limit = HTTPExchange.Field("RateLimit", "\"session\";r=4;t=50, \"presession\"; r=0; t=12")
        let outputs = try #require(
            bench.exchange(
                .batch(
                    [
                        .response(.stored("e1")), .problem(Problem(.idempotencyKeyReused, detail: "why")),
                        .problem(Problem(.rateLimited, detail: "why")),
                    ], fields: [limit]), at: 0))
        #expect(bench.ids == ["e3"])
        #expect(outputs.count == 3)
        #expect(outputs.first == .delivered(eventID: "e1", .stored("e1")))
        #expect(outputs.last == .wait(until: .at(12)), "the limit with nothing left says when")
    }

    @Test("the longest retry_after among a batch's results counts")
    func batchRetryAfter() throws {
        let bench = try QueueBench("e1", "e2", "e3")
        let outputs = bench.exchange(
            .batch([
                .response(.stored("e1")), .problem(Problem(.storeUnavailable, detail: "why", retryAfterSeconds: 30)),
                .problem(Problem(.storeUnavailable, detail: "why", retryAfterSeconds: 5)),
            ]), at: 0)
        #expect(outputs?.last == .wait(until: .at(30)))
        #expect(bench.ids == ["e2", "e3"])
    }

    @Test("a batch that is refused as a whole drops nothing: its events are sent alone")
    func batchRefused() throws {
        let bench = try QueueBench("e1", "e2")
        #expect(bench.exchange(.problem(.contentTooLarge), at: 0) == [])
        let attempt = try #require(bench.attempt(at: 0))
        #expect(attempt.request.path == "/native/events")
        #expect(attempt.eventIDs == ["e1"])
    }

    @Test("a batch answered with other than one result for each event is sent again")
    func batchMangled() throws {
        for outcome in [HTTPExchange.Outcome.batch([.response(.stored("e1"))]), .answer(200, "{}"), .stored("e1")] {
            let bench = try QueueBench("e1", "e2")
            #expect(bench.exchange(outcome, at: 0) == [.wait(until: .at(1))])
            #expect(bench.ids == ["e1", "e2"])
        }
        let bench = try QueueBench("e1", "e2")
        _ = bench.exchange(.batch([.response(.stored("e2")), .response(.stored("e1"))]), at: 0)
        #expect(bench.ids == ["e1", "e2"], "results in another order name other events")
    }

    // MARK: Credentials

    @Test("401 asks for a token once; the event goes again with the new one")
    func refresh() throws {
        for refusal in [HTTPExchange.Outcome.answer(401), .problem(.unauthorized), .problem(.forbidden)] {
            let bench = try QueueBench("e1")
            #expect(bench.exchange(refusal, at: 0) == [.refreshToken])
            #expect(bench.attempt(at: 1) == nil)
            bench.queue.tokenRefreshed()
            #expect(bench.exchange(.stored("e1"), at: 2)?.first == .delivered(eventID: "e1", .stored("e1")))
            try bench.enqueue("e2", at: 3)
            #expect(bench.exchange(refusal, at: 4) == [.refreshToken], "an hour later a token expires again")
        }
    }

    @Test("a second 401 stops the queue until its own driver signs in; no event is lost")
    func signInAgain() throws {
        let bench = try QueueBench("e1")
        _ = bench.exchange(.problem(.unauthorized), at: 0)
        bench.queue.tokenRefreshed()
        _ = bench.exchange(.problem(.storeUnavailable), at: 1)
        #expect(bench.exchange(.problem(.unauthorized), at: 100) == [.signInAgain])
        bench.queue.tokenRefreshed()
        #expect(bench.attempt(at: 200) == nil)
        #expect(!bench.signIn("d2"))
        #expect(bench.attempt(at: 200) == nil)
        #expect(bench.signIn("d1"))
        #expect(bench.attempt(at: 200)?.eventIDs == ["e1"])
    }

    @Test("a token that is rejected long after its first use has expired; a new one is requested")
    func expiredWithoutNetwork() throws {
        let bench = try QueueBench("e1")
        #expect(bench.exchange(.problem(.unauthorized), at: 0) == [.refreshToken])
        bench.queue.tokenRefreshed()
        _ = bench.exchange(.noResponse, at: 1)
        _ = bench.exchange(.noResponse, at: 3700)
        #expect(bench.exchange(.problem(.unauthorized), at: 3900) == [.refreshToken])
        bench.queue.tokenRefreshed()
        #expect(bench.exchange(.stored("e1"), at: 3901)?.first == .delivered(eventID: "e1", .stored("e1")))
    }

    @Test("a refresh that fails stops the queue likewise")
    func refreshFails() throws {
        let bench = try QueueBench("e1")
        _ = bench.exchange(.problem(.unauthorized), at: 0)
        bench.queue.refreshFailed()
        #expect(bench.attempt(at: 1) == nil)
        #expect(bench.signIn("d1"))
        #expect(bench.attempt(at: 1) != nil)
    }

    // MARK: Adding events

    @Test("what the server would refuse does not get in, nor does an id twice")
    func refusedWhenAdded() throws {
        let bench = try QueueBench("e1")
        #expect(throws: EnqueueError.duplicateID) { try bench.enqueue("e1") }
        var withoutSession = EventDraft.draft(.reset)
        withoutSession.sessionID = nil
        let refusal = BodyRefusal.invalid(
            InvalidFields([FieldError(pointer: "/session_id", detail: "is required by this event")]))
        #expect(throws: EnqueueError.invalid(refusal)) {
            try bench.enqueue("e2", withoutSession)
        }
        #expect(throws: EnqueueError.self) { try bench.enqueue("é") }
        #expect(bench.ids == ["e1"])
    }

    @Test("a full queue drops the oldest event that moves no state, else the oldest, never one on its way")
    func overflow() throws {
        let events = (0..<1000).map { QueuedEvent(eventID: "e\($0)", body: [], movesState: $0 != 500) }
        let bench = try QueueBench(journaled: events)
        #expect(try bench.enqueue("a") == [.dropped(events[500], .overflow)])
        let attempt = try #require(bench.attempt(at: 0))
        #expect(attempt.eventIDs == (0..<30).map { "e\($0)" })
        #expect(try bench.enqueue("b") == [.dropped(events[30], .overflow)])
        #expect(bench.queue.count == EventQueue<MemoryEventJournal>.eventsMax)
        let before = bench.ids
        #expect(try bench.enqueue("c", .draft(.diagnostic("note"))).count == 1)
        #expect(bench.ids == before, "of what can go, the diagnostic that just came mattered least")
    }

    @Test("an event that the journal refused is not in the queue")
    func journalRefuses() throws {
        var queue = try EventQueue(driver: DriverID("d1"), journal: FullDisk())
        #expect(throws: EnqueueError.journal(JournalError("full"))) {
            try queue.enqueue(.draft(), eventID: "e1", at: .at(0))
        }
        #expect(queue.count == 0)
    }
}

private struct FullDisk: EventJournal {
    func load() -> [QueuedEvent] { [] }
    func append(_ event: QueuedEvent) throws(JournalError) { throw JournalError("full") }
    func remove(_ eventIDs: [String]) throws(JournalError) { throw JournalError("full") }
}
