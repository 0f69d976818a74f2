// Tests what `RefoldService` writes to the log while it refolds journeys. Tests/SQLiteStoreTests/RefoldTests.swift
// tests the refolds.

import Engine
import TestSupport
import Testing

struct RefoldServiceTests {
    /// A store whose reads are interrupted, because the server is stopping.
    private struct InterruptedStore: JourneyRefolder {
        func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart { throw .cancelled }
        func hasUnfinishedRefolds() async throws(StoreFailure) -> Bool { throw .cancelled }
        var writesWaiting: Int { 0 }
    }

    /// A store with one driver, who cannot be refolded.
    private struct DamagedStore: JourneyRefolder {
        func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart {
            RefoldPart(next: nil, counts: RefoldCounts(), failure: .unavailable("damaged"))
        }
        func hasUnfinishedRefolds() async throws(StoreFailure) -> Bool { true }
        var writesWaiting: Int { 0 }
    }

    private let clock = ManualClock()
    private let log = LoggedLines()

    private func refolding(_ store: some JourneyRefolder) -> RefoldService {
        RefoldService(store: store, clock: { [clock] in clock.now }, logger: log.logger)
    }

    @Test func `the stop of the server is not logged as a failure`() async {
        var logLimit = FailureLogLimit()
        await refolding(InterruptedStore()).foldAll(RefoldRequest(), &logLimit)
        #expect(log.lines.isEmpty)
    }

    @Test func `a driver who cannot be refolded is logged once a minute`() async {
        var logLimit = FailureLogLimit()
        let service = refolding(DamagedStore())
        for _ in 0..<12 {
            await service.foldAll(RefoldRequest(resumesOnly: true), &logLimit)
            clock.advance(bySeconds: 5)
        }
        #expect(log.lines.count == 1)
        await service.foldAll(RefoldRequest(resumesOnly: true), &logLimit)
        #expect(log.lines.count == 2)
    }
}
