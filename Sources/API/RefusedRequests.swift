// Counts the requests that drivers' routes and sign-in routes have refused since the start. Each driver, route and
// status has its own count. Requests that HTTPServer itself refuses, for example because of an unknown path, are not
// counted.

import HTTP1
import JourneyModel
import Synchronization

package final class RefusedRequests: Sendable {
    /// The maximum number of rows. When it is reached, a new row replaces the row with the oldest `lastAt`.
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
        /// The id of the row's latest request. The log line of that request contains the same id.
        var requestID: String
    }

    private let rows = Mutex<[Key: Row]>([:])

    package init() {}

    /// Records one refused request, or several refused events of a batch. `count` is the number of events that were
    /// refused with this status.
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

    /// Returns at most `limit` rows, ordered by `lastAt`, the latest first. If `driver` or `status` is nil, it matches
    /// every row.
    func list(of driver: DriverID?, status: Int?, limit: Int) -> [Row] {
        let all = rows.withLock { Array($0.values) }
        let meant = all.filter { row in
            (driver == nil || row.key.driver == driver) && (status == nil || row.key.status == status)
        }
        return Array(meant.sorted { $0.lastAt > $1.lastAt }.prefix(limit))
    }
}
