// `DeadlineStore` on PostgreSQL. The read of the due deadlines takes no locks, so several instances may read the same
// deadlines.
//
// Several instances may write the same expiry (the event of a passed deadline). Only the first write succeeds. The
// other instances find that the driver's version has changed, or that the deadline is gone.
//
// The reads leave out drivers that another release has folded. After an older release, `RefoldService` first does an
// urgent refold of the driver (`RefoldRequest.urgentOnly`), and a later read finds the deadline. After a newer release,
// the servers of that release store the expiry.
//
// One call of `storeExpiries` waits for the expiries of up to 64 drivers. An expiry that waits for a long refold would
// delay the whole call. `WorkQueue` therefore refuses such an expiry (`Refusal.slow`), and a later call stores it.

package import Engine
package import JourneyModel
import Postgres

extension PostgresEventStore: DeadlineStore {
    package func earliestDeadline() async throws(StoreFailure) -> Moment? {
        let results = try await read([PostgresQuery(DeadlineStatements.earliest, [.int8(Fold.rulesVersion)])])
        do throws(PostgresError) {
            return try results[0].rows.first.map { (row) throws(PostgresError) in try row.moment(0) }
        } catch {
            throw StoreFailure(reading: error)
        }
    }

    package func storeExpiries(_ request: ExpiryRequest) async throws(StoreFailure) -> StoredExpiries {
        let results = try await read([
            PostgresQuery(
                DeadlineStatements.due,
                [
                    .int8(request.now.millisecondsSinceEpoch),
                    .int8(request.after?.deadline.millisecondsSinceEpoch ?? .min),
                    .int8(request.after?.driver ?? .min), .int8(Int64(request.driversMax)), .int8(Fold.rulesVersion),
                ])
        ])
        var due: [(id: DriverID, cursor: DeadlineCursor)] = []
        do throws(PostgresError) {
            for row in results[0].rows {
                due.append(
                    (
                        DriverID(try row.text(0)),
                        DeadlineCursor(deadline: try row.moment(1), driver: try row.int8(2))
                    ))
            }
        } catch {
            throw StoreFailure(reading: error)
        }
        var stored = StoredExpiries(next: due.count < request.driversMax ? nil : due.last?.cursor)
        await withTaskGroup(of: (Int, Result<Bool, StoreFailure>).self) { group in
            for (index, driver) in due.enumerated() {
                group.addTask { (index, await self.expire(driver.id, request)) }
            }
            var ended: [Int] = []
            for await (index, result) in group {
                switch result {
                case .success(true): ended.append(index)
                case .success(false): break
                case .failure(let failure): stored.failures.append(failure)
                }
            }
            stored.drivers = ended.sorted().map { due[$0].id }
        }
        return stored
    }
}

private enum DeadlineStatements {
    static let earliest = PostgresStatement(
        "earliest_deadline",
        """
        SELECT next_deadline_ms FROM driver WHERE next_deadline_ms IS NOT NULL AND rules = $1::int8
        ORDER BY next_deadline_ms, id LIMIT 1
        """)

    /// Parameters: the current time, the cursor's deadline and driver, the number of drivers, the version of the fold's
    /// rules.
    static let due = PostgresStatement(
        "due_deadlines",
        """
        SELECT driver_id, next_deadline_ms, id FROM driver
        WHERE next_deadline_ms < $1::int8 AND (next_deadline_ms, id) > ($2::int8, $3::int8) AND rules = $5::int8
        ORDER BY next_deadline_ms, id LIMIT $4::int8
        """)
}
