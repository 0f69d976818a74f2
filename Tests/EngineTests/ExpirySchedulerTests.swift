// Tests when the scheduler of expiries calls the store. SQLiteStoreTests/DeadlineTests tests the expiries that the
// store creates.

import JourneyModel
import Logging
import Synchronization
import TestSupport
import Testing

@testable import Engine

private final class ScriptedDeadlines: DeadlineStore {
    struct State {
        var due: [Moment]
        var asked: [ExpiryRequest] = []
        var failures: [StoreFailure] = []
        var unreadable: [StoreFailure] = []
    }

    let state: Mutex<State>
    /// A stream that gets one element each time the store has stored a part of the due expiries.
    let parts: AsyncStream<Int>
    private let stored: AsyncStream<Int>.Continuation

    init(due: [Moment]) {
        state = Mutex(State(due: due.sorted()))
        (parts, stored) = AsyncStream.makeStream()
    }

    func earliestDeadline() async throws(StoreFailure) -> Moment? {
        try state.withLock { state -> Result<Moment?, StoreFailure> in
            if let failure = state.failures.popLast() { return .failure(failure) }
            return .success(state.due.first)
        }.get()
    }

    func storeExpiries(_ request: ExpiryRequest) async throws(StoreFailure) -> StoredExpiries {
        state.withLock { state in
            state.asked.append(request)
            let part = state.due.prefix { $0 < request.now }.prefix(request.driversMax)
            state.due.removeFirst(part.count)
            stored.yield(part.count)
            let isFull = part.count == request.driversMax
            return StoredExpiries(
                drivers: part.map { DriverID("\($0)") }, failures: state.unreadable,
                next: isFull ? part.last.map { DeadlineCursor(deadline: $0, driver: 1) } : nil)
        }
    }
}

struct ExpirySchedulerTests {
    private let clock = ManualClock()

    private func keeping(_ store: ScriptedDeadlines) -> ExpiryScheduler {
        let settings = VersionedSettings(settings: Settings(), version: "v7")
        return ExpiryScheduler(
            store: store, settings: CurrentSettings(settings), clock: { [clock] in clock.now },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    }

    @Test func `nothing is asked of the writer while nothing is due`() async throws {
        let store = ScriptedDeadlines(due: [clock.now])
        try await keeping(store).storeDueExpiries()
        #expect(store.state.withLock { $0.asked.isEmpty }, "this millisecond is not over")
        clock.advance(byMilliseconds: 1)
        try await keeping(store).storeDueExpiries()
        let asked = try #require(store.state.withLock { $0.asked.first })
        #expect(asked.now == clock.now && asked.settings.version == "v7" && asked.after == nil)
    }

    @Test func `what is due is stored in parts, each beginning where the one before ended`() async throws {
        let count = ExpiryScheduler.driversMax * 3 + 5
        let store = ScriptedDeadlines(due: (0..<count).map { clock.now.advanced(byMilliseconds: Int64($0)) })
        clock.advance(bySeconds: 60)
        try await keeping(store).storeDueExpiries()
        #expect(store.state.withLock { $0.due.isEmpty })
        let places = store.state.withLock { $0.asked.map(\.after?.deadline) }
        let part = Int64(ExpiryScheduler.driversMax)
        #expect(
            places == [nil] + (1...3).map { Moment.sample.advanced(byMilliseconds: part * $0 - 1) })
    }

    @Test func `what could not be stored is answered`() async throws {
        let store = ScriptedDeadlines(due: [clock.now])
        store.state.withLock { $0.unreadable = [.unavailable("state")] }
        clock.advance(bySeconds: 1)
        #expect(try await keeping(store).storeDueExpiries() == [.unavailable("state")])
    }

    @Test func `a deadline that the store left out is asked for again after the longest pause`() async throws {
        let store = ScriptedDeadlines(due: [clock.now])
        let scheduler = keeping(store)
        #expect(try await scheduler.pauseMilliseconds(afterRoundBegunAt: clock.now) == 1)
        clock.advance(byMilliseconds: 1)
        let pause = try await scheduler.pauseMilliseconds(afterRoundBegunAt: clock.now)
        #expect(pause == ExpiryScheduler.pauseMillisecondsMax)
    }

    @Test(.timeLimit(.minutes(1))) func `the loop outlives failures and ends when it is cancelled`() async throws {
        let store = ScriptedDeadlines(due: [clock.now])
        store.state.withLock { $0.failures = [.unavailable("disk full"), .unknown("I/O")] }
        clock.advance(bySeconds: 1)
        let task = Task { await keeping(store).run() }
        var parts = store.parts.makeAsyncIterator()
        #expect(await parts.next() == 1)
        task.cancel()
        await task.value
    }
}
