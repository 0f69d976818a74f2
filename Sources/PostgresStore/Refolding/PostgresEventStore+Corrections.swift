// `SettingsCorrecting` on PostgreSQL. Records a correction (an operator's order to fold events with other settings),
// and refolds each affected driver in a batch of its own. The batch raises the driver's version, so all instances send
// the corrected journey to streams.

package import Engine
package import JourneyModel
import Postgres
import SharedTables

extension PostgresEventStore: SettingsCorrecting {
    /// The number of drivers that one call of `correct` examines.
    private static let examinedMax: Int64 = 1000
    /// `examinedMax` on Citus. It is lower, because the query on Citus reads all events of the examined drivers.
    private static let examinedMaxOfShards: Int64 = 50

    package func begin(
        _ order: CorrectionOrder, note: SettingsChangeNote, at now: Moment
    ) async throws(StoreFailure) -> CorrectionOutcome {
        try await change { db in try CorrectionRows.begin(order, note: note, at: now, db) }
    }

    package func finish(correction: Int64, at now: Moment) async throws(StoreFailure) {
        _ = try await change { db in
            try db.execute(
                sql: "UPDATE settings_correction SET finished_at_ms = ? WHERE id = ? AND finished_at_ms IS NULL",
                arguments: [now, correction])
        }
    }

    /// Returns the corrections, newest first.
    package func settingsCorrections(limit: Int) async throws(StoreFailure) -> [SettingsCorrection] {
        try await read { db in
            try SQLRow.fetchAll(
                db, sql: "\(CorrectionRows.select) ORDER BY id DESC LIMIT ?", arguments: [limit]
            ).map(CorrectionRows.correction)
        }
    }

    /// Examines the next drivers, and refolds the first one with an event that the correction changes. Returns the
    /// number of the driver after which the next call begins.
    func correct(_ id: Int64, _ request: RefoldRequest) async throws(StoreFailure) -> RefoldPart {
        let recorded = try await read { db in
            try SQLRow.fetchOne(db, sql: "\(CorrectionRows.select) WHERE id = ?", arguments: [id])
                .map(CorrectionRows.correction)
        }
        guard let recorded else { throw .unavailable("there is no correction \(id)") }
        let settings = try await correction(
            since: recorded.since, until: recorded.until, version: recorded.version, insteadOf: recorded.insteadOf)
        let isDistributed = try await shards().areDistributed
        let next = isDistributed ? CorrectionStatements.nextOfShards : CorrectionStatements.next
        let examinedMax = isDistributed ? Self.examinedMaxOfShards : Self.examinedMax
        let found = try await readLong(
            PostgresQuery(next, [.int8(request.after), .int8(examinedMax)] + settings.parameters),
            seconds: Self.searchSeconds)
        let (last, number, driver, from) = try decoded { () throws(PostgresError) in
            let row = found[0]
            return (
                try row.optionalInt8(0), try row.optionalInt8(1), try row.optionalText(2), try row.optionalMoment(3)
            )
        }
        guard let number, let driver, let from else { return RefoldPart(next: last, counts: RefoldCounts()) }
        switch await refold(DriverID(driver), DriverRefold(now: request.now, correction: (settings, from))) {
        case .success(let counts): return RefoldPart(next: number, counts: counts)
        case .failure(let failure): return RefoldPart(next: number, counts: RefoldCounts(), failure: failure)
        }
    }

    func correction(
        since: Moment, until: Moment, version: String?, insteadOf: String?
    ) async throws(StoreFailure) -> FoldCorrection {
        let found = try await read([PostgresQuery(CorrectionStatements.durations)])
        let durations = try decoded { () throws(PostgresError) in
            var durations: [TextKey: FoldCorrection.Durations] = [:]
            for row in found[0].rows {
                durations[TextKey(try row.text(0))] = FoldCorrection.Durations(
                    gracePeriodSeconds: Int(try row.int8(1)), hardTimeoutSeconds: Int(try row.int8(2)))
            }
            return durations
        }
        return FoldCorrection(
            since: since, until: until, version: version, insteadOf: insteadOf, durations: durations)
    }
}

enum CorrectionStatements {
    static let durations = PostgresStatement(
        "settings_durations", "SELECT version, grace_period_seconds, hard_timeout_seconds FROM settings_version")

    /// Examines drivers in the order of their numbers. Finds the first one with events that the correction changes.
    /// Drivers with an unfinished deletion are left out.
    ///
    /// Columns: the number of the last examined driver, then the found driver's number, its id, and the time of its
    /// first changed event. If no driver is found, only the first column is not NULL.
    ///
    /// Parameters: the driver's number after which to begin, the number of drivers to examine, those of
    /// `FoldCorrection.changes`.
    static let next = PostgresStatement(
        "correction_next",
        """
        WITH examined AS MATERIALIZED (
            SELECT id, number, driver_id, floor_at_ms FROM driver
            WHERE number > $1::int8 AND \(ErasureProgress.isNotErasing("driver")) ORDER BY number LIMIT $2::int8)
        SELECT (SELECT max(number) FROM examined), found.number, found.driver_id,
            (SELECT min(event.corrected_at_ms) FROM event, examined
                WHERE examined.number = found.number AND \(FoldCorrection.changes))
        FROM (SELECT 1) one LEFT JOIN LATERAL (
            SELECT number, driver_id FROM examined WHERE EXISTS (SELECT 1 FROM event WHERE \(FoldCorrection.changes))
            ORDER BY number LIMIT 1) found ON true
        """)
}

extension CorrectionStatements {
    /// `next` on Citus. `changed` is the found driver.
    static let nextOfShards = PostgresStatement(
        "correction_next_of_shards",
        """
        WITH examined AS MATERIALIZED (
            SELECT lane, id, number, driver_id, floor_at_ms FROM driver
            WHERE number > $1::int8 AND \(ErasureProgress.isNotErasing("driver")) ORDER BY number LIMIT $2::int8),
        changed AS MATERIALIZED (
            SELECT examined.number, examined.driver_id, min(event.corrected_at_ms) AS from_ms
            FROM event JOIN examined ON \(FoldCorrection.changes)
            GROUP BY examined.number, examined.driver_id ORDER BY examined.number LIMIT 1)
        SELECT last.number, changed.number, changed.driver_id, changed.from_ms
        FROM (SELECT max(number) AS number FROM examined) last LEFT JOIN changed ON true
        """)
}

/// The rows of `settings_correction`. The columns for settings contain settings versions. In SQLite's table, these
/// columns contain row numbers of `settings_version`.
enum CorrectionRows {
    static let select = """
        SELECT id, at_ms, since_ms, until_ms, settings, instead_of, changed_by, reason, finished_at_ms
        FROM settings_correction
        """

    static func correction(_ row: SQLRow) throws -> SettingsCorrection {
        SettingsCorrection(
            id: try row[0], at: try row[1], since: try row[2], until: try row[3], version: try row[4],
            insteadOf: try row[5], note: SettingsChangeNote(changedBy: try row[6], reason: try row[7]),
            finishedAt: try row[8])
    }

    /// Returns the settings for `target`. Returns nil for `.stored`, which means each event's own settings. Also
    /// returns nil for unknown settings.
    static func resolve(_ target: CorrectedSettings, _ db: any SQLTransaction) throws -> VersionedSettings? {
        let version: String?
        switch target {
        case .stored: return nil
        case .version(let named): version = named
        case .current:
            version = try String.fetchOne(db, sql: "SELECT version FROM settings_change ORDER BY id DESC LIMIT 1")
        }
        guard let version else { return nil }
        let text =
            try String.fetchOne(
                db, sql: "SELECT settings FROM settings_version WHERE version = ?", arguments: [version])
            ?? String.fetchOne(
                db, sql: "SELECT settings FROM settings_change WHERE version = ? ORDER BY id DESC LIMIT 1",
                arguments: [version])
        return text.flatMap(Settings.init(wireJSON:)).map { VersionedSettings(settings: $0, version: version) }
    }

    static func isStored(_ version: String, _ db: any SQLTransaction) throws -> Bool {
        try Int.fetchOne(db, sql: "SELECT 1 FROM settings_version WHERE version = ?", arguments: [version]) != nil
    }

    /// Records a correction. If there is an unfinished correction with the same times and settings, returns that one.
    static func begin(
        _ order: CorrectionOrder, note: SettingsChangeNote, at now: Moment, _ db: any SQLTransaction
    ) throws -> CorrectionOutcome {
        let target = try resolve(order.settings, db)
        if order.settings != .stored, target == nil { return .unknownSettings(order.settings.text) }
        // If `insteadOf` has no row in `settings_version`, no event was stored with these settings.
        if let version = order.insteadOf, try !isStored(version, db) { return .unknownSettings(version) }
        if let target {
            try db.execute(
                sql: """
                    INSERT INTO settings_version
                    (version, grace_period_seconds, hard_timeout_seconds, settings, first_used_at_ms)
                    VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
                    """,
                arguments: [
                    target.version, target.settings.gracePeriodSeconds, target.settings.hardTimeoutSeconds,
                    String(decoding: target.settings.wireJSON, as: UTF8.self), now,
                ])
        }
        // The time span must not reach into the future. Each driver is refolded only once, so an event that arrives
        // after this refold would stay uncorrected.
        let until = min(order.until ?? now, now)
        let unfinished = try SQLRow.fetchOne(
            db,
            sql: """
                \(select) WHERE finished_at_ms IS NULL AND since_ms = ?1 AND settings IS NOT DISTINCT FROM ?2
                AND instead_of IS NOT DISTINCT FROM ?3 AND until_ms = coalesce(?4, until_ms) ORDER BY id DESC LIMIT 1
                """, arguments: [order.since, target?.version, order.insteadOf, order.until == nil ? nil : until])
        if let unfinished { return .begun(try correction(unfinished), continues: true) }
        let added = try SQLRow.fetchOne(
            db,
            sql: """
                INSERT INTO settings_correction (at_ms, since_ms, until_ms, settings, instead_of, changed_by, reason)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                RETURNING id, at_ms, since_ms, until_ms, settings, instead_of, changed_by, reason, finished_at_ms
                """,
            arguments: [
                now, order.since, until, target?.version, order.insteadOf, note.changedBy ?? "", note.reason ?? "",
            ])
        guard let added else { throw UnreadableColumn(name: "settings_correction") }
        return .begun(try correction(added), continues: false)
    }
}
