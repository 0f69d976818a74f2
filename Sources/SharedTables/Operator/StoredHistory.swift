// Implements `HistoryStore`, which keeps the counts that the operator page shows over time. Each count is stored three
// times: per minute, per 15 minutes and per 2 hours.

package import Engine
package import JourneyModel

package enum StoredHistory {
    /// The three step lengths, each with the number of seconds for which its counts are kept. This number is the
    /// longest `HistoryRange` that is read from these counts, plus at least an hour.
    package static let levels: [(stepSeconds: Int64, keptSeconds: Int64)] = [
        (60, 7 * 3600), (900, 25 * 3600), (7200, 31 * 24 * 3600),
    ]
    /// Maximum number of expired rows deleted by one addition.
    package static let deletedMax = 2000

    package static let deleteSQL = """
        DELETE FROM operation_count WHERE (step_seconds, begins_at_ms, series) IN (
            SELECT step_seconds, begins_at_ms, series FROM operation_count
            WHERE step_seconds = ? AND begins_at_ms < ? LIMIT ?)
        """

    package static let readSQL = """
        SELECT begins_at_ms / ?3 * ?3 AS begin, series, CAST(sum(count) AS BIGINT) FROM operation_count
        WHERE step_seconds = ?1 AND begins_at_ms >= ?2 GROUP BY begin, series ORDER BY begin
        """

    static func add(_ minutes: [HistoryStep], at now: Moment, _ db: any SQLTransaction) throws {
        for level in levels {
            for minute in minutes {
                let begin = minute.beginsAt.floored(toSeconds: level.stepSeconds)
                for (series, count) in minute.counts {
                    try db.execute(
                        sql: """
                            INSERT INTO operation_count (step_seconds, begins_at_ms, series, count) VALUES (?, ?, ?, ?)
                            ON CONFLICT (step_seconds, begins_at_ms, series)
                            DO UPDATE SET count = operation_count.count + excluded.count
                            """,
                        arguments: [level.stepSeconds, begin, series, count])
                }
            }
            let oldest = now.millisecondsSinceEpoch - level.keptSeconds * 1000
            try db.execute(sql: deleteSQL, arguments: [level.stepSeconds, oldest, deletedMax])
        }
    }

    static func read(since start: Moment, in range: HistoryRange, _ db: any SQLTransaction) throws -> [HistoryStep] {
        // The coarsest level whose step divides the step of the range.
        let level = levels.last { range.stepSeconds % $0.stepSeconds == 0 } ?? levels[0]
        var steps: [HistoryStep] = []
        let arguments: SQLArguments = [level.stepSeconds, start, range.stepSeconds * 1000]
        for row in try SQLRow.fetchAll(db, sql: readSQL, arguments: arguments) {
            let begin: Moment = try row[0]
            if steps.last?.beginsAt != begin { steps.append(HistoryStep(beginsAt: begin, counts: [:])) }
            let (series, count): (String, Int) = (try row[1], try row[2])
            steps[steps.count - 1].counts[series] = count
        }
        return steps
    }
}

extension SQLDatabase {
    package func add(_ minutes: [HistoryStep], at now: Moment) async throws(StoreFailure) {
        try await change { db in try StoredHistory.add(minutes, at: now, db) }
    }

    package func history(since start: Moment, in range: HistoryRange) async throws(StoreFailure) -> [HistoryStep] {
        try await read { db in try StoredHistory.read(since: start, in: range, db) }
    }
}
