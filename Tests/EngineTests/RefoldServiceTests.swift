// Tests of the log of the task that refolds journeys. Tests/SQLiteStoreTests/RefoldTests.swift tests the refolds.

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

    @Test func `the stop of the server is not logged as a failure`() async {
        let log = LoggedLines()
        await RefoldService(store: InterruptedStore(), logger: log.logger).foldAll(RefoldRequest())
        #expect(log.lines.isEmpty)
    }
}
