// Reads the rows of `settings_correction` for the fold. Adds rows to `corrected_journey`, from which the streams of all
// servers learn that a correction of settings changed a journey. SettingsCorrectionRows.swift adds the rows of
// `settings_correction`.

import JourneyModel

/// How a correction replaces the settings of stored events in the fold. The settings stored with the events do not
/// change. Only an event's own row decides whether its settings are replaced.
struct FoldSettings {
    /// A row of `settings_version`.
    struct Version: Hashable {
        var row: Int64
        var gracePeriodSeconds: Int
        var hardTimeoutSeconds: Int
    }

    /// The receive times of the events whose settings are replaced: `since <= t < until`.
    var since: Moment
    var until: Moment
    /// The settings with which the fold replaces those of the events. Nil undoes an earlier correction: the fold then
    /// uses the settings stored with each event.
    var version: Version?
    /// If set, concerns only events that were stored with this row of `settings_version`.
    var insteadOf: Int64?

    func concerns(_ row: FoldedEventRow) -> Bool {
        row.event.origin == .client && since <= row.receivedAt && row.receivedAt < until
            && (insteadOf == nil || insteadOf == row.settingsVersion)
    }

    /// - Parameter stored: returns the settings with this row number.
    func apply(to row: inout FoldedEventRow, stored: (Int64) throws(SQLiteError) -> Version) throws(SQLiteError) {
        guard concerns(row) else { return }
        let settings = version?.row ?? row.settingsVersion
        guard settings != row.foldSettings ?? row.settingsVersion else { return }
        let version = if let version { version } else { try stored(settings) }
        row.foldSettings = settings == row.settingsVersion ? nil : settings
        row.hasNewFoldSettings = true
        row.event.gracePeriodSeconds = version.gracePeriodSeconds
        row.event.hardTimeoutSeconds = version.hardTimeoutSeconds
    }

    /// SQL condition that selects the events that `apply` changes. Parameters: ?3 `since`, ?4 `until`, ?5 the row
    /// number of `version`, ?6 `insteadOf`. ?5 and ?6 may be NULL.
    static let changesSQL = """
        received_at_ms >= ?3 AND received_at_ms < ?4 AND (?6 IS NULL OR settings_version = ?6)
        AND \(EventTable.foldSettingsSQL) <> coalesce(?5, settings_version)
        AND (SELECT origin FROM event_kind WHERE event_kind.id = event.kind) = 0
        """
}

extension FoldSettings.Version {
    static let findSQL = "SELECT grace_period_seconds, hard_timeout_seconds FROM settings_version WHERE id = ?1"

    /// `find` must be the statement of `findSQL`.
    init(_ row: Int64, _ find: PreparedStatement) throws(SQLiteError) {
        let version = try find.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, row)
        } read: { columns in
            Self(
                row: row, gracePeriodSeconds: Int(columns.integer(0)), hardTimeoutSeconds: Int(columns.integer(1)))
        }
        guard let version else { throw .unreadable("settings_version") }
        self = version
    }
}

final class SettingsCorrectionTable {
    /// The number of rows kept in `corrected_journey`. A stream that has missed more rows reads its journey again.
    static let correctedMax: Int64 = 10_000

    struct Row {
        var id: Int64
        var settings: FoldSettings
    }

    private let find: PreparedStatement
    private let findVersion: PreparedStatement
    private let addCorrected: PreparedStatement
    private let removeCorrected: PreparedStatement

    init(on connection: OpaquePointer) throws(SQLiteError) {
        find = try PreparedStatement(
            "SELECT since_ms, until_ms, settings, instead_of FROM settings_correction WHERE id = ?1", on: connection)
        findVersion = try PreparedStatement(FoldSettings.Version.findSQL, on: connection)
        addCorrected = try PreparedStatement(
            "INSERT INTO corrected_journey (driver) VALUES (?1)", on: connection)
        removeCorrected = try PreparedStatement("DELETE FROM corrected_journey WHERE id <= ?1", on: connection)
    }

    func row(_ id: Int64) throws(SQLiteError) -> Row? {
        let found = try find.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, id)
        } read: { row in
            (
                settings: FoldSettings(
                    since: Moment(millisecondsSinceEpoch: row.integer(0)),
                    until: Moment(millisecondsSinceEpoch: row.integer(1)), insteadOf: row.optionalInteger(3)),
                version: row.optionalInteger(2)
            )
        }
        guard var found else { return nil }
        if let version = found.version { found.settings.version = try FoldSettings.Version(version, findVersion) }
        return Row(id: id, settings: found.settings)
    }

    func apply(_ correction: Row, to row: inout FoldedEventRow) throws(SQLiteError) {
        try correction.settings.apply(to: &row) { (id) throws(SQLiteError) in
            try FoldSettings.Version(id, findVersion)
        }
    }

    func noteCorrected(_ driver: Int64) throws(SQLiteError) {
        let id = try addCorrected.inserted { (bindings) throws(SQLiteError) in try bindings.set(1, driver) }
        try removeCorrected.run { (bindings) throws(SQLiteError) in try bindings.set(1, id - Self.correctedMax) }
    }
}
