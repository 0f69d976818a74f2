// `JourneyRefolder` on SQLite. This file also contains `readOutsideRefold`, which reads a driver's events and never
// sees a half-finished refold.

package import Engine
import GRDB
import JourneyModel

extension SQLiteEventStore: JourneyRefolder {
    package func refold(_ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart {
        let search = try await read { db in try RefoldWaitList.next(request, db) }
        let isEnd = search.due == nil && search.last == nil && request.correction != nil
        let report = isEnd ? DueRefold(number: 0, driver: nil, correction: request.correction) : nil
        guard let due = search.due ?? report else { return RefoldPart(next: search.last, counts: RefoldCounts()) }
        return try await withCheckedContinuation { continuation in
            writer.add(.refold(due, continuation))
        }.get()
    }

    package func hasUnfinishedRefolds() async throws(StoreFailure) -> Bool {
        try await read { db in
            try Bool.fetchOne(
                db, sql: "SELECT EXISTS (SELECT 1 FROM refold WHERE rules <= ?)", arguments: [Fold.rulesVersion])
                ?? false
        }
    }

    /// The maximum time that a read waits for a refold. After that, the read fails with `.unavailable`.
    private static let refoldWaitMax = Duration.seconds(10)
    /// A read checks repeatedly whether the refold is complete. This is the pause after the first check. Each later
    /// pause is twice as long as the one before, up to a second.
    private static let refoldPollInterval = Duration.milliseconds(50)

    /// Reads the driver's events in one snapshot, never in the middle of a refold. A read of only the driver's row does
    /// not need this function: the row's journey changes only when the refold is complete.
    func readOutsideRefold<Value: Sendable>(
        of driver: DriverID, _ value: @escaping @Sendable (Database) throws -> Value
    ) async throws(StoreFailure) -> Value {
        let end = ContinuousClock.now + Self.refoldWaitMax
        var pause = Self.refoldPollInterval
        while true {
            let outcome: Value? = try await read { db in
                try RefoldTable.isUnderWay(driver, db) ? nil : value(db)
            }
            if let outcome { return outcome }
            guard ContinuousClock.now < end else { throw .unavailable("the driver's journey is being refolded") }
            do { try await Task.sleep(for: pause) } catch { throw .cancelled }
            pause = min(pause * 2, .seconds(1))
        }
    }
}
