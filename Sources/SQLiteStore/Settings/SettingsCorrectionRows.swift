// Finds the settings that an operator's correction names, records corrections of settings, and lists the recorded ones.

package import Engine
import GRDB
package import JourneyModel

enum SettingsCorrectionRows {
    /// Settings that were found in the database.
    struct Resolved {
        var settings: Settings
        var version: String
        /// Row number in `settings_version`. Nil if the settings have no row there, because no event was stored with
        /// them.
        var row: Int64?
    }

    /// Returns the settings that `target` names; nil if they are unknown. Also returns nil for `.stored`, which means
    /// the settings stored with each event.
    static func resolve(_ target: CorrectedSettings, _ db: Database) throws -> Resolved? {
        switch target {
        case .stored: return nil
        case .version(let version): return try resolve(version, db)
        case .current:
            let newest = try String.fetchOne(db, sql: "SELECT version FROM settings_change ORDER BY id DESC LIMIT 1")
            return try newest.flatMap { try resolve($0, db) }
        }
    }

    static func resolve(_ version: String, _ db: Database) throws -> Resolved? {
        let used = try Row.fetchOne(
            db, sql: "SELECT id, settings FROM settings_version WHERE version = ?", arguments: [version])
        let text: String? =
            if let used { used[1] } else {
                try String.fetchOne(
                    db, sql: "SELECT settings FROM settings_change WHERE version = ? ORDER BY id DESC LIMIT 1",
                    arguments: [version])
            }
        guard let text, let settings = Settings(wireJSON: text) else { return nil }
        return Resolved(settings: settings, version: version, row: used?[0])
    }

    static func foldSettings(_ id: Int64, _ db: Database) throws -> FoldSettings? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT since_ms, until_ms, instead_of, settings_correction.settings, grace_period_seconds,
                    hard_timeout_seconds
                FROM settings_correction LEFT JOIN settings_version ON settings_version.id = settings_correction.settings
                WHERE settings_correction.id = ?
                """, arguments: [id])
        guard let row else { return nil }
        var settings = FoldSettings(
            since: Moment(millisecondsSinceEpoch: row[0]), until: Moment(millisecondsSinceEpoch: row[1]),
            insteadOf: row[2])
        if let version: Int64 = row[3] {
            settings.version = FoldSettings.Version(
                row: version, gracePeriodSeconds: row[4], hardTimeoutSeconds: row[5])
        }
        return settings
    }

    /// Returns the corrections, newest first.
    static func list(limit: Int, _ db: Database) throws -> [SettingsCorrection] {
        guard try db.tableExists("settings_correction") else { return [] }
        return try Row.fetchAll(db, sql: "\(selectSQL) ORDER BY c.id DESC LIMIT ?", arguments: [limit]).map(correction)
    }

    private static let selectSQL = """
        SELECT c.id, at_ms, since_ms, until_ms, s.version, i.version, changed_by, reason, finished_at_ms
        FROM settings_correction AS c LEFT JOIN settings_version AS s ON s.id = c.settings
        LEFT JOIN settings_version AS i ON i.id = c.instead_of
        """

    private static func correction(_ row: Row) -> SettingsCorrection {
        SettingsCorrection(
            id: row[0], at: Moment(millisecondsSinceEpoch: row[1]), since: Moment(millisecondsSinceEpoch: row[2]),
            until: Moment(millisecondsSinceEpoch: row[3]), version: row[4], insteadOf: row[5],
            note: SettingsChangeNote(changedBy: row[6], reason: row[7]),
            finishedAt: (row[8] as Int64?).map(Moment.init(millisecondsSinceEpoch:)))
    }

    /// Records a correction of settings. If the same correction is already recorded and unfinished, returns the
    /// recorded one. An order without an end matches an unfinished correction with any end.
    static func begin(
        _ order: CorrectionOrder, note: SettingsChangeNote, at now: Moment, _ db: Database
    ) throws -> CorrectionOutcome {
        var target: Int64?
        if order.settings != .stored {
            guard let found = try resolve(order.settings, db) else { return .unknownSettings(order.settings.text) }
            target = try row(of: found, at: now, db)
        }
        var insteadOf: Int64?
        if let version = order.insteadOf {
            // If this settings version has no row, no event was stored with it. The correction could change no event,
            // so the version is probably a mistake.
            insteadOf = try Int64.fetchOne(
                db, sql: "SELECT id FROM settings_version WHERE version = ?", arguments: [version])
            guard insteadOf != nil else { return .unknownSettings(version) }
        }
        // The time span never reaches into the future. Otherwise an event of the time span could arrive after its
        // driver was refolded, and would stay uncorrected.
        let times = [order.since, min(order.until ?? now, now)].map(\.millisecondsSinceEpoch)
        let unfinished = try Row.fetchOne(
            db,
            sql: """
                \(selectSQL) WHERE finished_at_ms IS NULL AND since_ms = ? AND c.settings IS ? AND c.instead_of IS ?
                AND until_ms IS coalesce(?, until_ms) ORDER BY c.id DESC LIMIT 1
                """, arguments: [times[0], target, insteadOf, order.until == nil ? nil : times[1]])
        if let unfinished { return .begun(correction(unfinished), continues: true) }
        try db.execute(
            sql: """
                INSERT INTO settings_correction (at_ms, since_ms, until_ms, settings, instead_of, changed_by, reason)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                now.millisecondsSinceEpoch, times[0], times[1], target, insteadOf, note.changedBy ?? "",
                note.reason ?? "",
            ])
        let added = try Row.fetchOne(
            db, sql: "\(selectSQL) WHERE c.id = ?", arguments: [db.lastInsertedRowID])
        guard let added else { throw SQLiteError.unreadable("settings_correction") }
        return .begun(correction(added), continues: false)
    }

    /// Returns the settings' row number in `settings_version`. Adds a row if there is none.
    private static func row(of found: Resolved, at now: Moment, _ db: Database) throws -> Int64 {
        if let row = found.row { return row }
        try db.execute(
            sql: """
                INSERT INTO settings_version
                (version, grace_period_seconds, hard_timeout_seconds, settings, first_used_at_ms)
                VALUES (?, ?, ?, ?, ?)
                """,
            arguments: [
                found.version, found.settings.gracePeriodSeconds, found.settings.hardTimeoutSeconds,
                String(decoding: found.settings.wireJSON, as: UTF8.self), now.millisecondsSinceEpoch,
            ])
        return db.lastInsertedRowID
    }
}

extension SQLiteEventStore: SettingsCorrecting {
    package func begin(
        _ order: CorrectionOrder, note: SettingsChangeNote, at now: Moment
    ) async throws(StoreFailure) -> CorrectionOutcome {
        try await change { db in try SettingsCorrectionRows.begin(order, note: note, at: now, db) }
    }

    package func finish(correction: Int64, at now: Moment) async throws(StoreFailure) {
        try await change(keepsDriverCache: true) { db in
            try db.execute(
                sql: "UPDATE settings_correction SET finished_at_ms = ? WHERE id = ? AND finished_at_ms IS NULL",
                arguments: [now.millisecondsSinceEpoch, correction])
        }
    }

    package func settingsCorrections(limit: Int) async throws(StoreFailure) -> [SettingsCorrection] {
        try await read { db in try SettingsCorrectionRows.list(limit: limit, db) }
    }
}
