// Rejected requests since the start of the process, by driver, route and status: for the operator page, where a count
// of refusals leads to the drivers concerned. The rows are kept in memory, are limited in number, and change only when
// a request is refused.

import HTTP1
import JourneyModel
import Synchronization

package final class RefusedRequests: Sendable {
    /// The maximum number of rows. A new row beyond it replaces the row whose last refusal is the oldest.
    static let rowsMax = 1000

    struct Key: Hashable {
        /// The driver; nil if unknown.
        var driver: DriverID?
        var route: String
        var status: Int
    }

    struct Row: Hashable {
        var key: Key
        var count: Int
        var lastAt: Moment
        /// The id of the row's last request, by which its line is found in the log.
        var requestID: String
    }

    private let rows = Mutex<[Key: Row]>([:])

    package init() {}

    /// Records a refused request, or `count` events of a batch that were refused with the same status.
    func note(_ status: Status, _ driver: DriverID?, route: String, requestID: String, at now: Moment, count: Int = 1) {
        let key = Key(driver: driver, route: route, status: status.code)
        rows.withLock { rows in
            if rows[key] == nil, rows.count >= Self.rowsMax,
                let oldest = rows.values.min(by: { $0.lastAt < $1.lastAt })
            {
                rows[oldest.key] = nil
            }
            var row = rows[key] ?? Row(key: key, count: 0, lastAt: now, requestID: requestID)
            row.count += count
            row.lastAt = max(row.lastAt, now)
            row.requestID = requestID
            rows[key] = row
        }
    }

    /// Returns the most recent rows first, filtered by `driver` and `status` unless nil.
    func list(of driver: DriverID?, status: Int?, limit: Int) -> [Row] {
        let all = rows.withLock { Array($0.values) }
        let meant = all.filter { row in
            (driver == nil || row.key.driver == driver) && (status == nil || row.key.status == status)
        }
        return Array(meant.sorted { $0.lastAt > $1.lastAt }.prefix(limit))
    }
}
