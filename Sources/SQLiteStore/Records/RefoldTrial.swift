// Folds stored events again in memory, by other fold rules or with other settings, and counts what would change. Used
// by `dwell refold --dry-run` and `dwell config try`. Shares the code for folding and counting with the real refold.
//
// Reads each driver in one snapshot, so a server may run meanwhile. Handles one driver at a time, so memory does not
// grow with the number of drivers or events.

package import Engine
import GRDB
package import JourneyModel

package struct RefoldTrial: RecordsReader {
    package typealias Change = TriedChange
    package typealias Outcome = TrialOutcome

    private let queue: DatabaseQueue

    /// Opens the file read-only. It must have this binary's schema.
    package init(path: String) throws(RecordsUnreadable) {
        queue = try RecordsFile.open(path)
        do {
            try queue.read(MigrationRun().requireCurrent)
        } catch {
            throw RecordsUnreadable(error)
        }
    }

    package func close() {
        try? queue.close()
    }

    /// - Parameters:
    ///   - now: see `RefoldRequest.now`.
    ///   - progress: called with the number of examined drivers and the number of all drivers.
    /// - Throws: if the file cannot be read, or if a correction of settings names unknown settings.
    package func run(
        _ change: Change, now: Moment, _ progress: (MaintenanceProgress) -> Void = { _ in }
    ) throws(RecordsUnreadable) -> Outcome {
        let fold = try RecordsFile.read(queue) { db in try TrialFold(change, now: now, db) }
        let total = try RecordsFile.read(queue) { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM driver") ?? 0 }
        var outcome = Outcome()
        var (last, done) = (Int64(0), 0)
        while let driver = try RecordsFile.read(queue, { db in try fold.next(after: last, into: &outcome, db) }) {
            (last, done) = (driver, done + 1)
            progress(MaintenanceProgress(done: min(done, total), total: total))
        }
        return outcome
    }
}

/// Folds the drivers of a trial, one at a time. Not Sendable: used only in the closures that the database queue runs.
private final class TrialFold {
    private let change: RefoldTrial.Change
    private let now: Moment
    private let events: EventTable
    /// Used for drivers that an old release folded. Derives the values that old releases did not store.
    private let oldEvents: EventTable
    private let correction: FoldSettings?
    private let findVersion: PreparedStatement
    private let sessions: SessionTable

    init(_ change: RefoldTrial.Change, now: Moment, _ db: Database) throws {
        (self.change, self.now) = (change, now)
        guard let connection = db.sqliteConnection else { throw RecordsUnreadable("the database is closed") }
        events = try EventTable(on: connection)
        oldEvents = try EventTable(on: connection, derivesEvidence: true)
        findVersion = try PreparedStatement(FoldSettings.Version.findSQL, on: connection)
        sessions = try SessionTable(on: connection)
        if case .correction(let order) = change {
            correction = try Self.settings(of: order, now: now, db)
        } else {
            correction = nil
        }
    }

    private static func settings(of order: CorrectionOrder, now: Moment, _ db: Database) throws -> FoldSettings {
        var settings = FoldSettings(since: order.since, until: min(order.until ?? now, now))
        if order.settings != .stored {
            guard let found = try SettingsCorrectionRows.resolve(order.settings, db) else {
                throw RecordsUnreadable("no settings \(order.settings.text) in the settings history")
            }
            // If no event was stored with the settings, `settings_version` may lack a row for them, and a trial must
            // not add one. Such settings get the number -1, which no row has.
            settings.version = FoldSettings.Version(
                row: found.row ?? -1, gracePeriodSeconds: found.settings.gracePeriodSeconds,
                hardTimeoutSeconds: found.settings.hardTimeoutSeconds)
        }
        if let version = order.insteadOf {
            settings.insteadOf = try Int64.fetchOne(
                db, sql: "SELECT id FROM settings_version WHERE version = ?", arguments: [version])
            guard settings.insteadOf != nil else {
                throw RecordsUnreadable("no event was stored with the settings \(version)")
            }
        }
        return settings
    }

    /// Examines the next driver after the row number `last`. Folds the driver's events if the tried rules or settings
    /// may concern them. Returns the driver's row number; nil if no driver is left.
    func next(after last: Int64, into outcome: inout RefoldTrial.Outcome, _ db: Database) throws -> Int64? {
        let statement = try db.cachedStatement(
            sql: """
                SELECT id, driver_id, rules, floor_at_ms, head_corrected_at_ms FROM driver WHERE id > ?
                ORDER BY id LIMIT 1
                """)
        guard let row = try Row.fetchOne(statement, arguments: [last]) else { return nil }
        let id: Int64 = row[0]
        let rules: Int64 = row[2]
        guard rules != 0 else {
            outcome.refolding += 1
            return id
        }
        let isCurrent = rules == Fold.rulesVersion
        guard let start = try start(of: id, isCurrent: isCurrent, headAt: row[4], db) else { return id }
        let floor = (row[3] as Int64?).map(Moment.init(millisecondsSinceEpoch:))
        outcome.counts += try fold(id, DriverID(row[1]), from: isCurrent ? start : nil, floor: floor, isCurrent, db)
        return id
    }

    /// Returns the time from which the driver's events must be folded; nil if the change does not concern the driver.
    private func start(of driver: Int64, isCurrent: Bool, headAt: Int64?, _ db: Database) throws -> Moment? {
        switch change {
        case .rules(let since):
            guard !isCurrent else { return nil }
            let beginning = Moment(millisecondsSinceEpoch: .min)
            guard let since else { return beginning }
            return try RefoldWaitList.hasEvent(of: driver, since: since, db) ? beginning : nil
        case .correction:
            return try correction.flatMap { try RefoldWaitList.firstChange(of: driver, $0, db) }
        case .settings(let since, _):
            return headAt.map { $0 >= since.millisecondsSinceEpoch } ?? false ? since : nil
        }
    }

    /// - Parameter start: the time of the first event to fold. If nil, the fold begins at the driver's floor.
    private func fold(
        _ driver: Int64, _ driverID: DriverID, from start: Moment?, floor: Moment?, _ isCurrent: Bool, _ db: Database
    ) throws -> RefoldCounts {
        let beginning = floor ?? Moment(millisecondsSinceEpoch: .min)
        let time = max(start ?? beginning, beginning)
        let chainLast = try DriverEvents.end(of: driver, db).last
        var journey = StoredJourney()
        if start != nil, let last = try events.last(from: chainLast, before: time, notBefore: floor) {
            journey = last.after
        } else if floor != nil, let base = try events.base(of: driver) {
            journey = base
        }
        var walk = FoldWalk(from: journey)
        var tally = RefoldTally()
        // The stored journey after the event that was read last. It cannot come from `walk`, because `walk` may fold
        // the events of one second in an order other than the stored one.
        var stored = journey
        let appVersion = try appVersion(of: driver, db)
        let correcting = { (row: inout FoldedEventRow) throws(SQLiteError) in
            let before = stored.journey
            stored = row.after
            try self.correct(&row, of: driverID, after: before, appVersion: appVersion)
        }
        _ = try walk.take(
            from: chainLast, in: isCurrent ? events : oldEvents, startingAt: time, rowsMax: .max, correct: correcting
        ) { (step) throws(SQLiteError) in
            switch step {
            case .expiry(let deadline, let journey, _): tally.note(expiry: deadline.name, of: journey)
            case .event(let folded): tally.note(folded)
            }
            return true
        }
        tally.finish(stored: stored, folded: walk.running, now: now)
        return tally.counts
    }

    private func correct(
        _ row: inout FoldedEventRow, of driver: DriverID, after before: Journey, appVersion: String?
    ) throws(SQLiteError) {
        switch change {
        case .rules: return
        case .correction:
            try correction?.apply(to: &row) { (id) throws(SQLiteError) in
                try FoldSettings.Version(id, findVersion)
            }
        case .settings(_, let durations):
            guard row.event.origin == .client else { return }
            let registered: String? =
                if let session = row.session { try sessions.registeredCharger(of: session) } else { nil }
            let charger = before.settingsCharger(
                registered: registered, event: row.event.chargerID, sessionID: row.event.sessionID)
            let chosen = durations(
                TrialEvent(
                    driver: driver, chargerID: charger, appVersion: appVersion, receivedAt: row.receivedAt))
            if let seconds = chosen.gracePeriodSeconds { row.event.gracePeriodSeconds = seconds }
            if let seconds = chosen.hardTimeoutSeconds { row.event.hardTimeoutSeconds = seconds }
        }
    }

    private func appVersion(of driver: Int64, _ db: Database) throws -> String? {
        guard case .settings = change else { return nil }
        let statement = try db.cachedStatement(
            sql: "SELECT app_version FROM device WHERE driver = ? ORDER BY updated_at_ms DESC LIMIT 1")
        return try String.fetchOne(statement, arguments: [driver])
    }
}
