// `JourneyRefolder` on SQLite, and `readOutsideRefold`, which reads a driver's events only when no refold is under way.

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

    /// The maximum time that a read waits for a refold. If the refold takes longer, the read fails with `.unavailable`.
    private static let refoldWaitMax = Duration.seconds(10)
    /// The pause of a waiting read after its first check whether the refold is complete. Each further pause is twice as
    /// long as the one before, up to a second.
    private static let refoldPollInterval = Duration.milliseconds(50)

    /// Reads the driver's events in one snapshot, never in the middle of a refold. The driver's row can be read without
    /// this function, because a refold changes the row's journey only when it is complete.
    ///
    /// - Parameter ofLateEvent: whether to wait only for the refold of a late event.
    func readOutsideRefold<Value: Sendable>(
        of driver: DriverID, ofLateEvent: Bool = false, _ value: @escaping @Sendable (Database) throws -> Value
    ) async throws(StoreFailure) -> Value {
        let end = ContinuousClock.now + Self.refoldWaitMax
        var pause = Self.refoldPollInterval
        while true {
            let outcome: Value? = try await read { db in
                try RefoldTable.isUnderWay(driver, ofLateEvent: ofLateEvent, db) ? nil : value(db)
            }
            if let outcome { return outcome }
            guard ContinuousClock.now < end else { throw .unavailable("the driver's journey is being refolded") }
            do { try await Task.sleep(for: pause) } catch { throw .cancelled }
            pause = min(pause * 2, .seconds(1))
        }
    }
}
