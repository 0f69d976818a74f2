// For each app and environment, the time up to which Apple's notification history was read.

package import Identity
package import JourneyModel
package import Purchases

extension StoredPurchases: NotificationHistoryProgress {
    package func historyReadTo(of source: NotificationSource) async throws(AccountFailure) -> Moment? {
        try await read { db in
            try Moment.fetchOne(
                db, sql: "SELECT read_to_ms FROM notification_history WHERE environment = ? AND bundle_id = ?",
                arguments: [source.environment.rawValue, source.bundleID])
        }
    }

    package func record(
        historyReadTo time: Moment, of source: NotificationSource
    ) async throws(AccountFailure) {
        try await change { db in
            _ = try db.execute(
                sql: """
                    INSERT INTO notification_history (environment, bundle_id, read_to_ms) VALUES (?, ?, ?)
                    ON CONFLICT (environment, bundle_id) DO UPDATE SET read_to_ms = excluded.read_to_ms
                    """,
                arguments: [source.environment.rawValue, source.bundleID, time])
        }
    }
}
