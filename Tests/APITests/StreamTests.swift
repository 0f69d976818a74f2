// Tests of the stream of changes, without a socket.

import Engine
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Purchases
import RateLimiting
import Synchronization
import TestSupport
import Testing

@testable import API

@Suite(.timeLimit(.minutes(1))) struct StreamTests {
    private let api = ScriptedAPI()

    private func change(_ id: Int64, _ state: JourneyState) -> JourneyChange {
        let cause = JourneyChange.Cause(
            eventID: "e\(id)", name: .departedCharger, occurredAt: .sample, source: "ios_native")
        return JourneyChange(id: id, journey: Journey(state: state, sessionID: "s1"), cause: cause)
    }

    private func message(_ id: Int64, _ state: JourneyState) -> String {
        """
        id: \(id)
        data: {"state":"\(state.rawValue)","session_id":"s1","deadlines":{},"caused_by":{"event_id":"e\(id)",\
        "event":"exitedChargerAnchorZone","occurred_at":"2026-11-16T20:00:00.000Z","source":"ios_native"}}


        """
    }

    private func snapshot(_ id: Int64, _ state: JourneyState) -> String {
        message(id, state).replacing("}}\n", with: "},\"snapshot\":true}\n")
    }

    // MARK: Messages

    @Test func `a stream begins with the newest state, then tells each change once`() async throws {
        api.journeys.add(change(3, .anchored))
        let listening = Listening(await api.askSignedIn("/native/session/stream"))
        var written = listening.written
        #expect(await written.next() == "retry: 3000\n\n")
        #expect(await written.next() == snapshot(3, .anchored))
        api.journeys.add(change(5, .sessionActive))
        api.journeys.add(change(6, .inTransit))
        _ = try await api.streams.wakeChanged(after: 3)
        _ = try await api.streams.wakeChanged(after: 6)
        #expect(await written.next() == message(5, .sessionActive))
        #expect(await written.next() == message(6, .inTransit))
        api.journeys.add(change(7, .atMerchant))
        _ = try await api.streams.wakeChanged(after: 6)
        #expect(await written.next() == message(7, .atMerchant))
        api.streams.close()
        #expect(await written.next() == nil)
        await listening.end()
        #expect(api.streams.count == 0)
    }

    @Test func `entitlements come as events of their own, when they are asked for and when they change`() async throws {
        api.journeys.add(change(3, .anchored))
        let listening = Listening(await api.askSignedIn("/native/session/stream?entitlements=true"))
        var written = listening.written
        #expect(await written.next() == "retry: 3000\n\n")
        #expect(await written.next() == snapshot(3, .anchored))
        #expect(await written.next() == "event: entitlements\ndata: {\"entitlements\":[]}\n\n")
        // This wake comes without a change, so the stream must not send the same entitlements again.
        api.streams.wake(DriverID("driver"))
        api.purchases.stub([PurchaseRouteTests.monthly])
        _ = await api.send("POST", "/native/purchases", #"{"signed_transaction":"good"}"#)
        #expect(await written.next() == "event: entitlements\ndata: \(PurchaseRouteTests.json)\n\n")
        api.purchases.stub([])
        api.purchases.stub(NotificationOutcome.taken(owner: DriverID("driver")))
        _ = await api.send("POST", "/apple/store-notifications", #"{"signedPayload":"good"}"#)
        #expect(await written.next() == "event: entitlements\ndata: {\"entitlements\":[]}\n\n")
        // Another account sends this driver's purchase and gets 409. The server still stores the purchase's newer facts
        // for this driver.
        api.purchases.stub([PurchaseRouteTests.monthly])
        let refused = await api.send("POST", "/native/purchases", #"{"signed_transaction":"another's"}"#)
        #expect(refused.status.code == 409)
        #expect(await written.next() == "event: entitlements\ndata: \(PurchaseRouteTests.json)\n\n")
        api.streams.close()
        #expect(await written.next() == nil)
        await listening.end()
    }

    @Test func `each read of entitlements by a stream is charged, and a full window ends the reading`() async throws {
        let api = ScriptedAPI(limits: RateLimits(reads: 11))
        api.journeys.add(change(3, .anchored))
        api.purchases.stub([PurchaseRouteTests.monthly], ofFacts: 50)
        func readCount() -> Int { api.purchases.asked.count { $0.hasPrefix("entitlements") } }
        // Opening the stream costs one read, and the 50 facts behind the entitlements cost two more.
        let listening = Listening(await api.askSignedIn("/native/session/stream?entitlements=true"))
        var written = listening.written
        for _ in 0..<3 { _ = await written.next() }
        #expect(readCount() == 1)
        // Each time the stream asks for the entitlements, three reads are charged. After four times, 12 reads are
        // charged, which exceeds the limit of 11. The stream then sends changes without asking for the entitlements.
        for number in Int64(4)..<20 {
            api.journeys.add(change(number, .anchored))
            _ = try await api.streams.wakeChanged(after: number - 1)
            #expect(await written.next() == message(number, .anchored))
        }
        api.streams.close()
        #expect(await written.next() == nil)
        await listening.end()
        #expect(readCount() == 4)
    }

    @Test func `a refold is one snapshot, and the next change follows it`() async throws {
        api.journeys.add(change(3, .nearCharger))
        let listening = Listening(await api.askSignedIn("/native/session/stream"))
        var written = listening.written
        #expect(await written.next() == "retry: 3000\n\n")
        #expect(await written.next() == snapshot(3, .nearCharger))
        api.journeys.refold(to: Journey(state: .inTransit, sessionID: "s1"))
        try await api.streams.wakeRefolded()
        #expect(
            await written.next() == """
                id: 0
                data: {"state":"IN_TRANSIT","session_id":"s1","deadlines":{},"snapshot":true}


                """)
        _ = try await api.streams.wakeChanged(after: 3)
        api.journeys.add(change(8, .atMerchant))
        _ = try await api.streams.wakeChanged(after: 3)
        #expect(await written.next() == message(8, .atMerchant), "the snapshot is not repeated")
        api.streams.close()
        await listening.end()
    }

    @Test func `Last-Event-ID goes on behind it; one that is none of ours begins anew`() async throws {
        let cases: [(String, [String])] = [
            ("3", [message(5, .inTransit), message(6, .inTransit)]), ("6", []),
            ("0", [message(3, .inTransit), message(5, .inTransit), message(6, .inTransit)]),
            ("7", [snapshot(6, .inTransit)]), ("abc", [snapshot(6, .inTransit)]), ("-1", [snapshot(6, .inTransit)]),
            ("", [snapshot(6, .inTransit)]), ("99999999999999999999", [snapshot(6, .inTransit)]),
        ]
        for (id, expected) in cases {
            let api = ScriptedAPI()
            for id in [3, 5, 6] as [Int64] { api.journeys.add(change(id, .inTransit)) }
            let listening = Listening(await api.askSignedIn("/native/session/stream", lastEventID: id))
            var written = listening.written
            #expect(await written.next() == "retry: 3000\n\n")
            for message in expected { #expect(await written.next() == message, "\(id)") }
            // The stream sends nothing more until the next change.
            api.journeys.add(change(7, .atMerchant))
            _ = try await api.streams.wakeChanged(after: 6)
            #expect(await written.next() == message(7, .atMerchant), "\(id)")
            api.streams.close()
            #expect(await written.next() == nil, "\(id)")
            await listening.end()
        }
    }

    @Test func `a silent stream writes a comment at each heartbeat`() async throws {
        let handler = StreamHandler(
            journeys: api.journeys, streams: api.streams, tokens: api.tokens,
            limit: DriverLimit(admission: LocalRateLimiter(limits: .off)), clock: { .sample },
            logger: ScriptedAPI.silent, heartbeat: .milliseconds(5))
        let listening = Listening(try await handler.get(request, Caller(driver: DriverID("driver"))))
        var written = listening.written
        #expect(await written.next() == "retry: 3000\n\n")
        #expect(await written.next()?.hasPrefix("id: 0\n") == true)
        for _ in 0..<3 { #expect(await written.next() == ":\n\n") }

        api.tokens.revoke()
        while let text = await written.next() { #expect(text == ":\n\n") }
        await listening.end()
        #expect(api.streams.count == 0, "a token that was revoked ends the stream")
    }

    private var request: Request {
        Request(
            method: .get, path: "/native/session/stream", fields: Fields([("Authorization", "Bearer good")]), id: "r1",
            receivedAtMilliseconds: Moment.sample.millisecondsSinceEpoch)
    }

    // MARK: End of a stream

    @Test func `a store that fails ends the stream, so that the client comes back with its last id`() async throws {
        let listening = Listening(await api.askSignedIn("/native/session/stream"))
        var written = listening.written
        _ = await written.next()
        _ = await written.next()
        api.journeys.fail(with: .unavailable("disk"))
        _ = try await api.streams.wakeChanged(after: nil)
        await listening.end()
        #expect(await written.next() == nil)
        #expect(api.streams.count == 0)
    }

    @Test func `a client that is gone gives its place back`() async throws {
        let listening = Listening(await api.askSignedIn("/native/session/stream"), breaksAfter: 1)
        await listening.end()
        #expect(api.streams.count == 0)
    }

    @Test func `a client that resets its connection gives its place back at once`() async throws {
        let listening = Listening(await api.askSignedIn("/native/session/stream"))
        var written = listening.written
        #expect(await written.next() == "retry: 3000\n\n")
        #expect(api.streams.count == 1)
        listening.cancel()
        await listening.end()
        #expect(api.streams.count == 0)
    }

    /// A client that closes its socket looks like a client that only stops sending. The stream therefore writes a
    /// comment at once, and does not wait up to 15 s for the heartbeat. If the client is gone, this write fails.
    @Test func `a client that ends its side gets a comment, and its stream stays open`() async throws {
        let listening = Listening(await api.askSignedIn("/native/session/stream"))
        var written = listening.written
        #expect(await written.next() == "retry: 3000\n\n")
        #expect(await written.next()?.hasPrefix("id: 0\n") == true)
        listening.endSending()
        #expect(await written.next() == ":\n\n")
        #expect(api.streams.count == 1, "it may still read")
        api.streams.close()
        await listening.end()
    }

    @Test func `an answer that nobody sends gives its place back`() async throws {
        _ = await api.askSignedIn("/native/session/stream")
        #expect(api.streams.count == 0)
    }

    @Test func `HEAD takes no place`() async throws {
        let response = await api.askSignedIn("/native/session/stream", method: .head)
        #expect(response.status == .ok)
        #expect(response.fields.first("Content-Type") == "text/event-stream")
        #expect(api.streams.count == 0)
    }

    // MARK: Bounds

    @Test func `a fifth stream of the driver is 429, a closed server 503, each with Retry-After`() async throws {
        var responses: [Response] = []
        for _ in 0..<4 { responses.append(await api.askSignedIn("/native/session/stream")) }
        #expect(responses.map(\.status) == [.ok, .ok, .ok, .ok])
        let fifth = await api.askSignedIn("/native/session/stream")
        #expect(fifth.status == .tooManyRequests)
        #expect(fifth.fields.first("Retry-After") == "60")
        #expect(fifth.text.contains(#""code":"rate_limited""#))
        responses = []
        api.streams.close()
        let late = await api.askSignedIn("/native/session/stream")
        #expect(late.status == .serviceUnavailable)
        #expect(late.fields.first("Retry-After") == "5")
    }
}

/// A running streamed body whose writes a test can await.
private final class Listening: Sendable {
    struct Gone: Error {}

    private struct Writer: ResponseBodyWriter {
        let texts: AsyncStream<String>.Continuation
        let left: WritesLeft
        let endOfSending: EndOfSending

        func whenClientEndsSending(_ body: @escaping @Sendable () -> Void) { endOfSending.body.withLock { $0 = body } }

        func write(_ bytes: [UInt8]) async throws {
            guard left.take() else { throw Gone() }
            texts.yield(String(decoding: bytes, as: UTF8.self))
        }
    }

    let texts: AsyncStream<String>
    private let endOfSending = EndOfSending()
    private let task: Task<Void, Never>

    var written: AsyncStream<String>.Iterator { texts.makeAsyncIterator() }

    init(_ response: Response, breaksAfter writes: Int = .max) {
        let (texts, continuation) = AsyncStream<String>.makeStream()
        self.texts = texts
        #expect(response.status == .ok)
        task = Task { [endOfSending] in
            if case .stream(let produce) = response.body {
                try? await produce(Writer(texts: continuation, left: WritesLeft(writes), endOfSending: endOfSending))
            }
            endOfSending.body.withLock { $0 = nil }
            continuation.finish()
        }
    }

    /// Returns when the body has ended.
    func end() async { await task.value }

    /// Cancels the body's task, as the server does when the client is gone.
    func cancel() { task.cancel() }

    func endSending() { endOfSending.body.withLock { $0 }?() }
}

private final class EndOfSending: Sendable {
    let body = Mutex<(@Sendable () -> Void)?>(nil)
}

private final class WritesLeft: Sendable {
    private let left: Mutex<Int>

    init(_ count: Int) { left = Mutex(count) }

    func take() -> Bool {
        left.withLock { left in
            guard left > 0 else { return false }
            left -= 1
            return true
        }
    }
}
