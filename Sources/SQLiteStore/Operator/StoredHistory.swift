// `HistoryStore` on SQLite: counts at three levels, with steps of a minute, a quarter of an hour and two hours. Each
// addition updates all levels. The steps of a level are deleted when no time range of the operator page needs them any
// more. The number of rows in the table is therefore bounded.

package import Engine
import GRDB
package import JourneyModel

extension SQLiteEventStore: HistoryStore {
    /// The levels. Each has the duration of a step and the time for which steps are kept, both in seconds. Steps are
    /// kept for the longest time range that uses the level, plus at least an hour.
    static let historyLevels: [(stepSeconds: Int64, keptSeconds: Int64)] = [
        (60, 7 * 3600), (900, 25 * 3600), (7200, 31 * 24 * 3600),
    ]
    /// Maximum number of expired rows deleted by one addition.
    static let historyDeletedMax = 2000

    package func add(_ minutes: [HistoryStep], at now: Moment) async throws(StoreFailure) {
        try await change(keepsDriverCache: true) { db in
            let add = try db.cachedStatement(
                sql: """
                    INSERT INTO operation_count (step_seconds, begins_at_ms, series, count) VALUES (?, ?, ?, ?)
                    ON CONFLICT DO UPDATE SET count = count + excluded.count
                    """)
            let delete = try db.cachedStatement(sql: Self.historyDeleteSQL)
            for level in Self.historyLevels {
                for minute in minutes {
                    let begin = minute.beginsAt.floored(toSeconds: level.stepSeconds)
                    for (series, count) in minute.counts {
                        try add.execute(arguments: [
                            level.stepSeconds, begin.millisecondsSinceEpoch, series, count,
                        ])
                    }
                }
                let oldest = now.millisecondsSinceEpoch - level.keptSeconds * 1000
                try delete.execute(arguments: [level.stepSeconds, oldest, Self.historyDeletedMax])
            }
        }
    }

    static let historyDeleteSQL = """
        DELETE FROM operation_count WHERE (step_seconds, begins_at_ms, series) IN (
            SELECT step_seconds, begins_at_ms, series FROM operation_count
            WHERE step_seconds = ? AND begins_at_ms < ? LIMIT ?)
        """

    package func history(since start: Moment, in range: HistoryRange) async throws(StoreFailure) -> [HistoryStep] {
        // The coarsest level whose step divides the step of the range.
        let level = Self.historyLevels.last { range.stepSeconds % $0.stepSeconds == 0 } ?? Self.historyLevels[0]
        return try await read { db in
            let rows = try Row.fetchCursor(
                db, sql: Self.historySQL,
                arguments: [level.stepSeconds, start.millisecondsSinceEpoch, range.stepSeconds * 1000])
            var steps: [HistoryStep] = []
            while let row = try rows.next() {
                let begin = Moment(millisecondsSinceEpoch: row[0])
                if steps.last?.beginsAt != begin { steps.append(HistoryStep(beginsAt: begin, counts: [:])) }
                steps[steps.count - 1].counts[row[1]] = row[2]
            }
            return steps
        }
    }

    static let historySQL = """
        SELECT begins_at_ms / ?3 * ?3 AS begin, series, sum(count) FROM operation_count
        WHERE step_seconds = ?1 AND begins_at_ms >= ?2 GROUP BY begin, series ORDER BY begin
        """
}
