// `RefoldTrying` on PostgreSQL: folds stored events again in memory, by other rules or settings, and counts what would
// change. The real refold uses the same code for folding and counting.

package import Engine
package import JourneyModel
import Postgres
import SharedTables

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
        let counted = try await read([PostgresQuery(TrialStatements.driverCount)], seconds: Self.trialSeconds)
        let total = try decoded { () throws(PostgresError) in Int(try counted[0][0].int8(0)) }
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
            let found = try await read([query], seconds: Self.trialSeconds)
            let drivers = try decoded { () throws(PostgresError) in
                var drivers: [(id: Int64, number: Int64, from: Moment?)] = []
                for row in found[0].rows {
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

    /// Folds the driver's events from `from` on.
    private func tryRefold(
        _ driver: Int64, from: Moment, _ change: TriedChange, _ correction: FoldCorrection?, now: Moment
    ) async throws(StoreFailure) -> RefoldCounts {
        let lanes = try await shards().parameters(ofDriver: driver)
        let time = PostgresValue.int8s([from.millisecondsSinceEpoch])
        let id = PostgresValue.int8s([driver])
        let found = try await read(
            [
                .init(.beginSnapshot), PostgresQuery(TrialStatements.driver, lanes + [.int8(driver)]),
                PostgresQuery(TrialStatements.events, lanes + [.int8(driver), .int8(from.millisecondsSinceEpoch)]),
                PostgresQuery(
                    EventStatements.starts, lanes + [id, time, .int8s([Int64.min])]),
                PostgresQuery(EventStatements.bases, lanes + [id]),
                PostgresQuery(TrialStatements.chargers, lanes + [.int8(driver)]),
                PostgresQuery(TrialStatements.appVersion, [.int8(driver)]), .init(.commit),
            ], seconds: Self.trialSeconds)
        return try decoded { () throws(PostgresError) in
            guard let row = found[1].rows.first else { return RefoldCounts() }
            let stored = try StoredDriver(row)
            var events: [FoldedEvent] = []
            for row in found[2].rows
            where try stored.floor.map({ (floor) throws(PostgresError) in
                try row.moment(5) >= floor
            }) ?? true {
                events.append(try FoldedEvent(row))
            }
            events.sort(by: FoldedEvent.isStored(_:before:))
            var start = try found[4].rows.first.map { (row) throws(PostgresError) in try Journey(row, at: 1) }
            if stored.floor.map({ from > $0 }) ?? true, let row = found[3].rows.first {
                start = try Journey(row, at: 1)
            }
            var fold = DriverFold(
                stored,
                tail: BatchReads.Tail(
                    from: from, through: nil, tail: JourneyTail(start: start ?? Journey(), events: events)))
            guard case .settings(_, let durations) = change else {
                return fold.refold(at: now) { event, _ in correction?.apply(to: &event) }
            }
            var chargers: [TextKey: String] = [:]
            for row in found[5].rows { chargers[TextKey(try row.text(0))] = try row.text(1) }
            let appVersion = try found[6].rows.first.flatMap { (row) throws(PostgresError) in try row.optionalText(0) }
            return fold.refold(at: now) { event, before in
                guard event.event.origin == .client, let receivedAt = event.receivedAt else { return }
                let charger = before.settingsCharger(
                    registered: event.event.sessionID.flatMap { chargers[TextKey($0)] }, event: event.event.chargerID,
                    sessionID: event.event.sessionID)
                let chosen = durations(
                    TrialEvent(
                        driver: stored.driver, chargerID: charger, appVersion: appVersion, receivedAt: receivedAt))
                if let seconds = chosen.gracePeriodSeconds { event.event.gracePeriodSeconds = seconds }
                if let seconds = chosen.hardTimeoutSeconds { event.event.hardTimeoutSeconds = seconds }
            }
        }
    }
}

private enum TrialStatements {
    static let driverCount = PostgresStatement("trial_drivers", "SELECT count(*) FROM driver")

    private static let examined = """
        (SELECT * FROM driver WHERE number > $1::int8 ORDER BY number LIMIT $2::int8) examined
        """

    /// Returns an SQL expression for the time from which the events of a driver are to be folded; NULL if no event
    /// changes. This is the time of the first changed event. But if an older release folded the driver, it is the
    /// floor, because all events must be folded by the new rules. Without a floor, it is the lowest time.
    private static func start(changed: String) -> String {
        """
        CASE WHEN examined.rules < \(Fold.rulesVersion) AND \(changed) IS NOT NULL
            THEN coalesce(examined.floor_at_ms, -9223372036854775808) ELSE \(changed) END
        """
    }

    /// Drivers in the order in which they were added, each with the time from which its events are to be folded. The
    /// time is NULL if the change does not affect the driver. Parameters: the number of the last driver, the number of
    /// rows, the version of the fold's rules, a time of receipt or NULL.
    static let byRules = PostgresStatement(
        "trial_by_rules",
        """
        SELECT examined.id, examined.number, CASE WHEN examined.rules < $3::int8
            AND ($4::int8 IS NULL OR EXISTS (SELECT 1 FROM event
                WHERE event.driver = examined.id AND event.received_at_ms >= $4::int8))
            THEN coalesce(examined.floor_at_ms, -9223372036854775808) END
        FROM \(examined) ORDER BY examined.number
        """)

    /// Parameters: the first two of `byRules`, then those of `FoldCorrection.changes`.
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

    /// Parameters: the first two of `byRules`, then a time.
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

    /// Parameters: `LaneParameters`, `driver.id`, the first time.
    static let events = PostgresStatement(
        "trial_events",
        """
        SELECT \(EventStatements.foldedColumns) FROM event
        JOIN settings_version ON settings_version.version = coalesce(event.fold_settings, event.settings_version)
        WHERE event.driver = $3::int8 AND event.corrected_at_ms >= $4::int8 AND \(LaneParameters.condition("event"))
        """)

    static let chargers = PostgresStatement(
        "trial_chargers",
        """
        SELECT session_id, registered_charger FROM session
        WHERE driver = $3::int8 AND registered_charger IS NOT NULL AND \(LaneParameters.condition("session"))
        """)

    /// The app version of the driver's most recently updated device.
    static let appVersion = PostgresStatement(
        "trial_app_version",
        "SELECT app_version FROM device WHERE driver = $1::int8 ORDER BY updated_at_ms DESC LIMIT 1")
}
