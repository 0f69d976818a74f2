// Tests when `RefoldService` refolds journeys, and what it then writes to the log.
// Tests/SQLiteStoreTests/RefoldTests.swift tests the refolds.

import Engine
import Synchronization
import TestSupport
import Testing

struct RefoldServiceTests {
    /// A store whose reads are interrupted, because the server is stopping.
    private struct InterruptedStore: JourneyRefolder {
        func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart { throw .cancelled }
        var writesWaiting: Int { 0 }
    }

    /// A store with one driver, who cannot be refolded.
    private struct DamagedStore: JourneyRefolder {
        func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart {
            RefoldPart(next: nil, counts: RefoldCounts(), failure: .unavailable("damaged"))
        }
        var writesWaiting: Int { 0 }
    }

    /// A store whose writer always has a request to serve. Records the refold requests.
    private final class BusyStore: JourneyRefolder {
        private let requests = Mutex<[RefoldRequest]>([])
        var writesWaiting: Int { 1 }

        func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart {
            requests.withLock { $0.append(request) }
            return RefoldPart(next: nil, counts: RefoldCounts())
        }

        func searches() -> Int { requests.withLock { $0.filter { !$0.urgentOnly }.count } }
    }

    /// A store whose search for drivers ends only after the urgent refolds are done.
    private final class UrgentRefoldStore: JourneyRefolder {
        private let isDone = Atomic(false)
        var writesWaiting: Int { 0 }

        func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart {
            if request.urgentOnly { isDone.store(true, ordering: .sequentiallyConsistent) }
            let isEnd = isDone.load(ordering: .sequentiallyConsistent)
            return RefoldPart(next: isEnd ? nil : request.after + 1, counts: RefoldCounts())
        }
    }

    private let clock = ManualClock()
    private let log = LoggedLines()

    private func refolding(
        _ store: some JourneyRefolder, pauseBetweenChecks: Duration = .seconds(5)
    ) -> RefoldService {
        RefoldService(
            store: store, clock: { [clock] in clock.now }, logger: log.logger, pauseBetweenChecks: pauseBetweenChecks)
    }

    @Test func `the stop of the server is not logged as a failure`() async {
        var logLimit = FailureLogLimit()
        await refolding(InterruptedStore()).refold(RefoldRequest(), &logLimit)
        #expect(log.lines.isEmpty)
    }

    @Test func `a driver who cannot be refolded is logged once a minute`() async {
        var logLimit = FailureLogLimit()
        let service = refolding(DamagedStore())
        for _ in 0..<12 {
            await service.refold(RefoldRequest(urgentOnly: true), &logLimit)
            clock.advance(bySeconds: 5)
        }
        #expect(log.lines.count == 1)
        await service.refold(RefoldRequest(urgentOnly: true), &logLimit)
        #expect(log.lines.count == 2)
    }

    @Test(.timeLimit(.minutes(1))) func `a server that is never idle refolds nevertheless`() async throws {
        let store = BusyStore()
        var logLimit = FailureLogLimit()
        await refolding(store).refold(RefoldRequest(), &logLimit)
        #expect(store.searches() == 1)
        let part = try await store.refold(RefoldRequest(), within: .seconds(60))
        #expect(part.next == nil && store.searches() == 2)
    }

    @Test(.timeLimit(.minutes(1))) func `an urgent refold does not wait for the end of a search`() async {
        var logLimit = FailureLogLimit()
        let service = refolding(UrgentRefoldStore(), pauseBetweenChecks: .milliseconds(1))
        await service.refold(RefoldRequest(), &logLimit)
    }

    @Test(.timeLimit(.minutes(1)))
    func `drivers of an older release that come later are found by another search`() async throws {
        let store = BusyStore()
        let service = refolding(store, pauseBetweenChecks: .microseconds(10))
        let running = Task { await service.run() }
        while store.searches() < 2 { try await Task.sleep(for: .milliseconds(10)) }
        running.cancel()
        await running.value
    }
}
