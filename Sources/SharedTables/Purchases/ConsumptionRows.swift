// Whether the driver agrees that consumption information is sent to Apple, and the durable queue of Apple's requests
// for this information.

package import Identity
package import JourneyModel
package import Purchases

package enum ConsumptionRows {
    /// The type of the notification that requests consumption information.
    static let notificationType = "CONSUMPTION_REQUEST"
    /// Maximum number of old rows deleted with each insert.
    private static let deletedPerInsert = 4

    /// Stores the driver's answer with its time. If the driver repeats the stored answer, the stored time does not
    /// change.
    static func setConsent(
        _ isGiven: Bool, of driver: Int64, at now: Moment, _ db: any SQLTransaction
    ) throws -> ConsumptionConsent {
        try db.execute(
            sql: """
                INSERT INTO consumption_consent (driver, is_given, changed_at_ms) VALUES (?, ?, ?)
                ON CONFLICT (driver) DO UPDATE
                SET is_given = excluded.is_given, changed_at_ms = excluded.changed_at_ms
                WHERE consumption_consent.is_given <> excluded.is_given
                """,
            arguments: [driver, isGiven, now.millisecondsSinceEpoch])
        guard let consent = try consent(of: driver, db) else {
            throw UnreadableColumn(name: "consumption_consent.is_given")
        }
        return consent
    }

    /// Returns the driver's answer; nil if the driver has never answered.
    package static func consent(of driver: Int64, _ db: any SQLTransaction) throws -> ConsumptionConsent? {
        try SQLRow.fetchOne(
            db, sql: "SELECT is_given, changed_at_ms FROM consumption_consent WHERE driver = ?", arguments: [driver]
        ).map { ConsumptionConsent(isGiven: try $0[0], changedAt: try $0[1]) }
    }

    /// Queues a request for consumption information. Must be called in the transaction that stores the notification
    /// with the request. Otherwise a crash after storing the notification could lose the request, although Apple gets
    /// an acknowledgement.
    ///
    /// Does nothing if the request is already stored. This happens when `dwell purchases replay` processes a
    /// notification again after the stored notification was deleted.
    static func add(
        _ notification: StoreNotification, _ transaction: TransactionFact, of purchase: Int64, at now: Moment,
        _ db: any SQLTransaction
    ) throws {
        let requested = notification.signedDate.millisecondsSinceEpoch
        try db.execute(
            sql: """
                INSERT INTO consumption_request
                    (notification, purchase, environment, bundle_id, transaction_id, requested_at_ms, next_attempt_at_ms)
                VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (notification) DO NOTHING
                """,
            arguments: [
                notification.notificationUUID, purchase, transaction.environment.rawValue, transaction.bundleID,
                transaction.transactionID, requested, now.millisecondsSinceEpoch,
            ])
        let oldest = now.advanced(bySeconds: -StoreNotificationRows.keptDays * 86_400)
        try db.execute(
            sql: """
                DELETE FROM consumption_request WHERE requested_at_ms < ? AND next_attempt_at_ms IS NULL
                    AND id IN (SELECT id FROM consumption_request ORDER BY id LIMIT ?)
                """,
            arguments: [oldest.millisecondsSinceEpoch, deletedPerInsert])
    }

    /// Returns the due request with the earliest time of its next attempt. If this time is later than the longest pause
    /// allows, the clock was set back. Such a request is also due, but comes after all others.
    static func next(dueAt now: Moment, _ db: any SQLTransaction) throws -> ConsumptionRequest? {
        let latest = ServerClocks.latest(at: now).advanced(bySeconds: ConsumptionAnswers.retrySecondsMax)
        return try next("next_attempt_at_ms <= ?", now, db) ?? next("next_attempt_at_ms > ?", latest, db)
    }

    private static func next(
        _ condition: String, _ moment: Moment, _ db: any SQLTransaction
    ) throws -> ConsumptionRequest? {
        let row = try SQLRow.fetchOne(
            db,
            sql: """
                SELECT consumption_request.id, consumption_request.environment, bundle_id, transaction_id,
                    requested_at_ms, attempt_count, coalesce(is_given, 0)
                FROM consumption_request JOIN purchase ON purchase.id = consumption_request.purchase
                LEFT JOIN consumption_consent ON consumption_consent.driver = purchase.driver
                WHERE \(condition) ORDER BY next_attempt_at_ms, consumption_request.id LIMIT 1
                """,
            arguments: [moment])
        guard let row else { return nil }
        guard let environment = try AppStoreEnvironment(rawValue: row[1]) else {
            throw UnreadableColumn(name: "consumption_request.environment")
        }
        return try ConsumptionRequest(
            id: row[0], environment: environment, bundleID: row[2], transactionID: row[3], requestedAt: row[4],
            attemptCount: row[5], hasConsent: row[6])
    }
}

extension StoredPurchases: ConsumptionQueue {
    package func nextConsumptionRequest(
        dueAt now: Moment
    ) async throws(AccountFailure) -> ConsumptionRequest? {
        try await read { db in try ConsumptionRows.next(dueAt: now, db) }
    }

    package func finish(
        _ request: Int64, _ outcome: ConsumptionOutcome, at now: Moment
    ) async throws(AccountFailure) {
        try await change { db in
            _ = try db.execute(
                sql: """
                    UPDATE consumption_request SET outcome = ?, finished_at_ms = ?, next_attempt_at_ms = NULL
                    WHERE id = ? AND outcome IS NULL
                    """,
                arguments: [outcome.rawValue, now.millisecondsSinceEpoch, request])
        }
    }

    package func postpone(_ request: Int64, until next: Moment) async throws(AccountFailure) {
        try await change { db in
            _ = try db.execute(
                sql: """
                    UPDATE consumption_request SET attempt_count = attempt_count + 1, next_attempt_at_ms = ?
                    WHERE id = ? AND outcome IS NULL
                    """,
                arguments: [next.millisecondsSinceEpoch, request])
        }
    }
}
