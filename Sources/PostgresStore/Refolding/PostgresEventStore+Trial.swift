// `RefoldTrying` on PostgreSQL: folds stored events again in memory, by other rules or settings, and counts what would
// change. The real refold uses the same code for folding and counting.

package import Engine
package import JourneyModel
import Postgres
import SharedTables
import Sockets

extension PostgresEventStore: RefoldTrying {
    private static let trialSeconds = 600
    /// The number of drivers that one query examines.
    private static let triedPageMax: Int64 = 1000

    package func tryRefold(
        _ change: TriedChange, now: Moment, _ progress: @Sendable (_ done: Int, _ total: Int) -> Void
    ) async throws(StoreFailure) -> TrialOutcome {
        var outcome = TrialOutcome()
        var correction: FoldCorrection?
        if case .correction(let order) = change { correction = try await self.correction(order, now: now) }
        let counted = try await readLong(PostgresQuery(TrialStatements.driverCount), seconds: Self.trialSeconds)
        let total = try decoded { () throws(PostgresError) in Int(try counted[0].int8(0)) }
        let isDistributed = try await shards().areDistributed
        var (last, done): (Int64?, Int) = (0, 0)
        while let after = last {
            let page = [PostgresValue.int8(after), .int8(Self.triedPageMax)]
            let query =
                switch change {
                case .rules(let since):
                    PostgresQuery(
                        isDistributed ? TrialStatements.byRulesOfShards : TrialStatements.byRules,
                        page + [.int8(Fold.rulesVersion), since.map { .int8($0.millisecondsSinceEpoch) } ?? .null])
                case .correction:
                    PostgresQuery(
                        isDistributed ? TrialStatements.byCorrectionOfShards : TrialStatements.byCorrection,
                        page + (correction?.parameters ?? []))
                case .settings(let since, _):
                    PostgresQuery(TrialStatements.bySettings, page + [.int8(since.millisecondsSinceEpoch)])
                }
            let found = try await readLong(query, seconds: Self.trialSeconds)
            let drivers = try decoded { () throws(PostgresError) in
                var drivers: [(id: Int64, number: Int64, from: Moment?)] = []
                for row in found.rows {
                    drivers.append((try row.int8(0), try row.int8(1), try row.optionalMoment(2)))
                }
                return drivers
            }
            last = drivers.last?.number
            for driver in drivers {
                if let from = driver.from {
                    outcome.counts += try await tryRefold(driver.id, from: from, change, correction, now: now)
                }
                done += 1
                progress(min(done, total), total)
            }
        }
        return outcome
    }

    private func correction(_ order: CorrectionOrder, now: Moment) async throws(StoreFailure) -> FoldCorrection {
        let (target, isKnown) = try await read { db in
            (
                try CorrectionRows.resolve(order.settings, db),
                try order.insteadOf.map { try CorrectionRows.isStored($0, db) } ?? true
            )
        }
        if order.settings != .stored, target == nil {
            throw .unavailable("no settings \(order.settings.text) in the settings history")
        }
        if let version = order.insteadOf, !isKnown {
            throw .unavailable("no event was stored with the settings \(version)")
        }
        var correction = try await correction(
            since: order.since, until: min(order.until ?? now, now), version: target?.version,
            insteadOf: order.insteadOf)
        if let target {
            correction.durations[TextKey(target.version)] = FoldCorrection.Durations(
                gracePeriodSeconds: target.settings.gracePeriodSeconds,
                hardTimeoutSeconds: target.settings.hardTimeoutSeconds)
        }
        return correction
    }

    /// Folds the driver's events from `from` on. Reads them in the same parts as the real refold, from one snapshot. If
    /// `change` is not a correction, `correction` is nil.
    private func tryRefold(
        _ driver: Int64, from: Moment, _ change: TriedChange, _ correction: FoldCorrection?, now: Moment
    ) async throws(StoreFailure) -> RefoldCounts {
        let shards = try await shards()
        let lanes = shards.parameters(ofDriver: driver)
        let partMax = tailMax
        let first = [
            PostgresQuery(TrialStatements.driver, lanes + [.int8(driver)]),
            PostgresQuery(TrialStatements.appVersion, [.int8(driver)]),
        ]
        return try await inSnapshot(seconds: Self.trialSeconds, first: first) {
            (found, connection, deadline) async throws(PostgresError) -> RefoldCounts in
            guard let row = found[0].rows.first else { return RefoldCounts() }
            let stored = try StoredDriver(row)
            let appVersion = try found[1].rows.first.flatMap { (row) throws(PostgresError) in try row.optionalText(0) }
            // After `from` was read, retention may have raised the floor (the time at which the fold begins).
            let begin = stored.floor.map { max($0, from) } ?? from
            var refold = RefoldInParts(of: stored, from: begin, now: now) { event in correction?.apply(to: &event) }
            var reads = BatchReads(of: stored)
            while let next = refold.next {
                let read = try await reads.readPart(
                    of: stored.driver, from: next, eventsMax: partMax, shards, on: connection, until: deadline)
                // `read` is nil if a deletion of the driver has begun since this driver was listed.
                guard var part = read else { return RefoldCounts() }
                if case .settings(_, let durations) = change {
                    let chargers = try await Self.chargers(
                        of: part.tail.events, lanes + [.int8(driver)], on: connection, until: deadline)
                    part.tail.correct { event, before in
                        guard event.event.origin == .client, let receivedAt = event.receivedAt else { return }
                        let charger = before.settingsCharger(
                            registered: event.event.sessionID.flatMap { chargers[TextKey($0)] },
                            event: event.event.chargerID, sessionID: event.event.sessionID)
                        let chosen = durations(
                            TrialEvent(
                                driver: stored.driver, chargerID: charger, appVersion: appVersion,
                                receivedAt: receivedAt))
                        if let seconds = chosen.gracePeriodSeconds { event.event.gracePeriodSeconds = seconds }
                        if let seconds = chosen.hardTimeoutSeconds { event.event.hardTimeoutSeconds = seconds }
                    }
                }
                _ = refold.take(part)
                refold.forgetAdded()
            }
            return refold.counts
        }
    }

    /// Returns the registered charger of each session that the events name.
    ///
    /// - Parameter driver: the parameters that identify the driver: `LaneParameters`, `driver.id`.
    private static func chargers(
        of events: [FoldedEvent], _ driver: [PostgresValue], on connection: PostgresConnection, until deadline: Deadline
    ) async throws(PostgresError) -> [TextKey: String] {
        let sessions = Set(events.compactMap { $0.event.sessionID.map(TextKey.init) })
        if sessions.isEmpty { return [:] }
        let found = try await connection.run(
            [PostgresQuery(TrialStatements.chargers, driver + [.texts(sessions.map { $0.text })])], until: deadline)
        var chargers: [TextKey: String] = [:]
        for row in found[0].rows { chargers[TextKey(try row.text(0))] = try row.text(1) }
        return chargers
    }
}

private enum TrialStatements {
    static let driverCount = PostgresStatement("trial_drivers", "SELECT count(*) FROM driver")

    /// The next drivers in the order of their numbers. As in the real refold, a driver with an unfinished deletion is
    /// left out, because its events have old and new ids.
    private static let examined = """
        (SELECT * FROM driver WHERE number > $1::int8 AND \(ErasureProgress.isNotErasing("driver"))
            ORDER BY number LIMIT $2::int8) examined
        """

    /// Returns an SQL expression for the time from which a driver's events must be folded. This is the time of the
    /// first changed event (`changed`); NULL if no event changes.
    ///
    /// If an older release folded the driver, all events must be folded by the new rules. The time is then the driver's
    /// floor. Without a floor, it is the lowest time.
    private static func start(changed: String) -> String {
        """
        CASE WHEN examined.rules < \(Fold.rulesVersion) AND \(changed) IS NOT NULL
            THEN coalesce(examined.floor_at_ms, -9223372036854775808) ELSE \(changed) END
        """
    }

    /// Drivers in the order of their numbers, each with the time from which its events are folded. The time is NULL if
    /// the change does not affect the driver.
    ///
    /// Parameters: the driver's number after which to begin, the number of rows, the version of the fold's rules, a
    /// receive time or NULL. With a receive time, only drivers with an event received at that time or later are
    /// affected.
    static let byRules = PostgresStatement(
        "trial_by_rules",
        """
        SELECT examined.id, examined.number, CASE WHEN examined.rules < $3::int8
            AND ($4::int8 IS NULL OR EXISTS (SELECT 1 FROM event
                WHERE event.driver = examined.id AND event.received_at_ms >= $4::int8))
            THEN coalesce(examined.floor_at_ms, -9223372036854775808) END
        FROM \(examined) ORDER BY examined.number
        """)

    /// The same columns as `byRules`. Parameters: the first two of `byRules`, then those of `FoldCorrection.changes`.
    static let byCorrection = PostgresStatement(
        "trial_by_correction",
        """
        SELECT examined.id, examined.number, \(start(changed: "changed.from_ms"))
        FROM \(examined) CROSS JOIN LATERAL (
            SELECT min(event.corrected_at_ms) AS from_ms FROM event WHERE \(FoldCorrection.changes)) AS changed
        ORDER BY examined.number
        """)

    /// `byRules` on Citus, where a subquery in the condition cannot read events that lie on other servers.
    static let byRulesOfShards = PostgresStatement(
        "trial_by_rules_of_shards",
        """
        WITH examined AS MATERIALIZED (SELECT id, number, rules, floor_at_ms FROM \(examined)),
        received AS MATERIALIZED (
            SELECT DISTINCT examined.id FROM event JOIN examined ON event.driver = examined.id
            WHERE event.received_at_ms >= $4::int8)
        SELECT examined.id, examined.number, CASE WHEN examined.rules < $3::int8
            AND ($4::int8 IS NULL OR received.id IS NOT NULL)
            THEN coalesce(examined.floor_at_ms, -9223372036854775808) END
        FROM examined LEFT JOIN received ON received.id = examined.id ORDER BY examined.number
        """)

    /// `byCorrection` on Citus.
    static let byCorrectionOfShards = PostgresStatement(
        "trial_by_correction_of_shards",
        """
        WITH examined AS MATERIALIZED (SELECT id, number, rules, floor_at_ms FROM \(examined)),
        changed AS MATERIALIZED (
            SELECT examined.id, min(event.corrected_at_ms) AS from_ms FROM event JOIN examined
            ON \(FoldCorrection.changes) GROUP BY examined.id)
        SELECT examined.id, examined.number, \(start(changed: "changed.from_ms"))
        FROM examined LEFT JOIN changed ON changed.id = examined.id ORDER BY examined.number
        """)

    /// The same columns as `byRules`. Parameters: the first two of `byRules`, then a corrected time. Events at this
    /// time or later are folded with other settings.
    static let bySettings = PostgresStatement(
        "trial_by_settings",
        """
        SELECT examined.id, examined.number, CASE WHEN examined.head_corrected_at_ms >= $3::int8
            THEN \(start(changed: "greatest($3::int8, coalesce(examined.floor_at_ms, $3::int8))")) END
        FROM \(examined) ORDER BY examined.number
        """)

    static let driver = PostgresStatement(
        "trial_driver",
        """
        SELECT \(StoredDriver.columns) FROM driver
        WHERE driver.id = $3::int8 AND \(LaneParameters.condition("driver"))
        """)

    /// Parameters: `LaneParameters`, `driver.id`, ids of sessions.
    static let chargers = PostgresStatement(
        "trial_chargers",
        """
        SELECT session_id, registered_charger FROM session
        WHERE driver = $3::int8 AND session_id = ANY ($4::text[]) AND registered_charger IS NOT NULL
            AND \(LaneParameters.condition("session"))
        """)

    /// The app version of the driver's most recently updated device.
    static let appVersion = PostgresStatement(
        "trial_app_version",
        "SELECT app_version FROM device WHERE driver = $1::int8 ORDER BY updated_at_ms DESC LIMIT 1")
}
