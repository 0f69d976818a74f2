// Rejected requests by driver, route and status: for the operator page, where a count of refusals leads to the
// drivers concerned. In memory, bounded, since the start of the process; written only when a request is refused.

import HTTP1
import JourneyModel
import Synchronization

package final class RefusedRequests: Sendable {
    /// Beyond this the row with the oldest last refusal is dropped.
    static let rowsMax = 1000

    struct Key: Hashable {
        /// Nil: the driver is unknown.
        var driver: DriverID?
        var route: String
        var status: Int
    }

    struct Row: Hashable {
        var key: Key
        var count: Int
        var lastAt: Moment
        /// The id of the last one: its line is in the log.
        var requestID: String
    }

    private let rows = Mutex<[Key: Row]>([:])

    package init() {}

    /// `count`: events of a batch that were refused alike.
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

    /// Most recent first. `driver` and `status` filter the rows.
    func list(of driver: DriverID?, status: Int?, limit: Int) -> [Row] {
        let all = rows.withLock { Array($0.values) }
        let meant = all.filter { row in
            (driver == nil || row.key.driver == driver) && (status == nil || row.key.status == status)
        }
        return Array(meant.sorted { $0.lastAt > $1.lastAt }.prefix(limit))
    }
}
