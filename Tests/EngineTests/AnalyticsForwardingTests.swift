// Tests of the forwarding of events to the analytics service. Also tests the behaviour when the service rejects events.

import Engine
import JourneyModel
import Logging
import Synchronization
import TestSupport
import Testing

@testable import Engine

@Suite struct AnalyticsForwardingTests {
    private let feed = ScriptedFeed()
    private let service = ScriptedCapture()
    private let clock = ManualClock()

    private var forwarding: AnalyticsForwarding {
        AnalyticsForwarding(
            feed: feed, capture: service, clock: { [clock] in clock.now },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    }

    @Test func everythingIsForwardedOnceInOrder() async {
        feed.add(count: 450)
        var pace = AnalyticsForwarding.Pace()
        for _ in 0..<3 { #expect(await forwarding.round(&pace) == 0) }
        #expect(await forwarding.round(&pace) == AnalyticsForwarding.idleMilliseconds)
        #expect(service.taken == Array(1...450))
        #expect(feed.position == FeedPosition(last: 450, newest: 450, lostCount: 0))
    }

    @Test func simulatedDriversArePassedOverAndNotLost() async {
        feed.add(count: 2)
        feed.add(count: 3, of: "simulated-1x-driver-0")
        feed.add(count: 1)
        feed.add(count: 450, of: "simulated-1x-driver-1")
        var pace = AnalyticsForwarding.Pace()
        for _ in 0..<3 { #expect(await forwarding.round(&pace) == 0) }
        #expect(service.taken == [1, 2, 6])
        #expect(feed.position == FeedPosition(last: 456, newest: 456, lostCount: 0))
    }

    @Test func anOutageCostsNothingButTheWait() async {
        feed.add(count: 3)
        service.answer { _ in .unavailable(reason: "down", retryAfterSeconds: nil) }
        var pace = AnalyticsForwarding.Pace()
        var pauses: [Int64] = []
        for _ in 0..<9 { pauses.append(await forwarding.round(&pace)) }
        for (failures, pause) in pauses.enumerated() {
            let shortest = min(1000 << Int64(failures), 60_000)
            #expect(pause >= shortest && pause <= shortest + shortest / 2)
        }
        #expect(feed.position.last == 0)
        service.answer { _ in .taken }
        #expect(await forwarding.round(&pace) == 0)
        #expect(service.taken == [1, 2, 3])
        #expect(pace.failureCount == 0)
    }

    @Test func theServiceSaysHowLongToWait() async {
        feed.add(count: 1)
        service.answer { _ in .unavailable(reason: "too many", retryAfterSeconds: 120) }
        var pace = AnalyticsForwarding.Pace()
        #expect(await forwarding.round(&pace) == 120_000)
    }

    /// The service rejects every request that contains event 300. That event must be dropped and counted, and all other
    /// events must arrive.
    @Test func oneBadEventNeverSinksItsNeighbours() async {
        feed.add(count: 450)
        service.answer { events in events.contains { $0.id == 300 } ? .refused(reason: "400") : .taken }
        var pace = AnalyticsForwarding.Pace()
        for _ in 0..<60 where feed.position.waitingCount > 0 { #expect(await forwarding.round(&pace) == 0) }
        #expect(service.taken == Array(1...450).filter { $0 != 300 })
        #expect(feed.position == FeedPosition(last: 450, newest: 450, lostCount: 1))
        #expect(pace.batchSize > 1)
    }

    @Test func whatWasDeletedBeforeItWasReadIsCounted() async {
        feed.add(count: 50)
        feed.delete(upTo: 20)
        var pace = AnalyticsForwarding.Pace()
        #expect(await forwarding.round(&pace) == 0)
        #expect(service.taken == Array(21...50))
        #expect(feed.position == FeedPosition(last: 50, newest: 50, lostCount: 20))
    }

    @Test func aRequestThatTheShutdownCancelsIsNoFailure() async {
        feed.add(count: 1)
        service.answer { _ in .unavailable(reason: "cancelled", retryAfterSeconds: nil) }
        let (log, failure) = (LoggedLines(), DeliveryFailure())
        let forwarding = AnalyticsForwarding(
            feed: feed, capture: service, clock: { [clock] in clock.now }, logger: log.logger, failure: failure)
        await Task {
            withUnsafeCurrentTask { $0?.cancel() }
            var pace = AnalyticsForwarding.Pace()
            _ = await forwarding.round(&pace)
        }.value
        #expect(log.lines.isEmpty)
        #expect(failure.last == nil)
        #expect(feed.position.last == 0)
    }

    @Test func aStoreThatFailsIsAskedAgain() async {
        feed.add(count: 2)
        feed.fail(with: .unavailable("disk"))
        var pace = AnalyticsForwarding.Pace()
        #expect(await forwarding.round(&pace) >= 1000)
        feed.fail(with: nil)
        #expect(await forwarding.round(&pace) == 0)
        #expect(service.taken == [1, 2])
    }
}

private final class ScriptedFeed: EventFeed {
    private struct State {
        var events: [FeedEvent] = []
        var position = FeedPosition(last: 0, newest: 0, lostCount: 0)
        var failure: StoreFailure?
    }

    private let state = Mutex(State())

    var position: FeedPosition { state.withLock { $0.position } }

    func fail(with failure: StoreFailure?) { state.withLock { $0.failure = failure } }

    func delete(upTo id: Int64) { state.withLock { $0.events.removeAll { $0.id <= id } } }

    func add(count: Int64, of driver: String = "d") {
        state.withLock { state in
            for id in state.position.newest + 1...state.position.newest + count {
                state.events.append(
                    FeedEvent(
                        id: id, driver: DriverID(driver), eventID: "e\(id)", name: .chargerTargeted, sessionID: nil,
                        sent: SentMembers(source: "ios_native"), occurredAt: Moment(millisecondsSinceEpoch: id),
                        receivedAt: Moment(millisecondsSinceEpoch: id), metadata: nil, settingsVersion: "v",
                        verdict: .none, state: .idle))
            }
            state.position.newest += count
        }
    }

    var hasConsecutiveIDs: Bool { true }

    func storedEvents(after id: Int64, limit: Int) async throws(StoreFailure) -> [FeedEvent] {
        try answer { Array($0.events.filter { $0.id > id }.prefix(limit)) }
    }

    func position(of consumer: String) async throws(StoreFailure) -> FeedPosition { try answer(\.position) }

    func move(_ consumer: String, to id: Int64, losing lostCount: Int64, at now: Moment) async throws(StoreFailure) {
        try answer { _ in }
        state.withLock { state in
            state.position.last = id
            state.position.lostCount += lostCount
        }
    }

    private func answer<Value>(_ value: (State) -> Value) throws(StoreFailure) -> Value {
        let state = state.withLock { $0 }
        if let failure = state.failure { throw failure }
        return value(state)
    }
}

private final class ScriptedCapture: AnalyticsCapture {
    private struct State {
        var answer: @Sendable ([FeedEvent]) -> CaptureOutcome = { _ in .taken }
        var taken: [Int64] = []
    }

    private let state = Mutex(State())

    var taken: [Int64] { state.withLock { $0.taken } }

    func answer(_ answer: @escaping @Sendable ([FeedEvent]) -> CaptureOutcome) {
        state.withLock { $0.answer = answer }
    }

    func capture(_ events: [FeedEvent]) async -> CaptureOutcome {
        state.withLock { state in
            let outcome = state.answer(events)
            if outcome == .taken { state.taken += events.map(\.id) }
            return outcome
        }
    }
}
