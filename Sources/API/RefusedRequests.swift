// Counts the requests that drivers' routes and sign-in routes have refused since the start, by driver, route and
// status. Requests that HTTPServer refuses by itself, for example because of an unknown path, are not counted.
//
// The class holds one row per driver, route and status. The number of rows is limited. A row changes only when a
// request is refused.

import HTTP1
import JourneyModel
import Synchronization

package final class RefusedRequests: Sendable {
    /// The maximum number of rows. Once there are this many rows, a new row replaces the row whose last refusal is the
    /// oldest.
    static let rowsMax = 1000

    struct Key: Hashable {
        /// The driver; nil if the request had no valid token, or if its token was not checked.
        var driver: DriverID?
        var route: String
        var status: Int
    }

    struct Row: Hashable {
        var key: Key
        var count: Int
        var lastAt: Moment
        /// The id of the last request that the row counts. An operator can find that request's log line by the id.
        var requestID: String
    }

    private let rows = Mutex<[Key: Row]>([:])

    package init() {}

    /// Records one refused request. For a batch, records `count` of its events, which were refused with the same
    /// status.
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

    /// Returns at most `limit` rows, the most recent refusal first. If `driver` or `status` is not nil, returns only
    /// rows with this driver or status.
    func list(of driver: DriverID?, status: Int?, limit: Int) -> [Row] {
        let all = rows.withLock { Array($0.values) }
        let meant = all.filter { row in
            (driver == nil || row.key.driver == driver) && (status == nil || row.key.status == status)
        }
        return Array(meant.sorted { $0.lastAt > $1.lastAt }.prefix(limit))
    }
}
