// Finds the drivers that must be refolded:
//
// - drivers whose events were folded by older fold rules
// - drivers whose refold is not complete
// - drivers with events whose settings an operator corrects
//
// Uses a read connection, because the search may read all events of many drivers. The writer must not wait for that.

import Engine
import GRDB
import JourneyModel

/// A driver to be refolded.
struct DueRefold: Sendable {
    /// Row number in `driver`.
    var number: Int64
    /// Nil if no driver is left to refold. The writer then only returns the counts in `Refolding.unreported`.
    var driver: DriverID?
    var correction: Int64?
    /// The time of the first event that the correction of settings changes; nil if the request orders no correction.
    /// Also nil while a refold of the driver is in progress, because that refold must be completed first.
    var from: Moment?
    var now: Moment?
}

enum RefoldWaitList {
    /// The time limit of one read, checked after each driver. The limit is needed because the WAL cannot be reset while
    /// the read has its snapshot open.
    static let timeLimit = Duration.milliseconds(100)

    /// The result of one read.
    struct Search: Sendable {
        var due: DueRefold?
        /// The row number of the last examined driver. Nil if all drivers are examined.
        var last: Int64?
    }

    /// Examines the drivers after `request.after`, by row number, until one must be refolded or `timeLimit` has passed.
    static func next(_ request: RefoldRequest, _ db: Database) throws -> Search {
        if request.urgentOnly { return try nextUnfinished(request, db) }
        let correction = try request.correction.map { try fold($0, db) }
        let end = ContinuousClock.now + timeLimit
        let drivers = try Row.fetchCursor(
            db, sql: "SELECT id, driver_id, rules FROM driver WHERE id > ? ORDER BY id", arguments: [request.after])
        while let row = try drivers.next() {
            var due = DueRefold(number: row[0], driver: DriverID(row[1]), now: request.now)
            due.correction = request.correction
            let rules: Int64 = row[2]
            let isDue: Bool
            if let correction {
                due.from = rules == 0 ? nil : try firstChange(of: due.number, correction, db)
                isDue = rules == 0 || due.from != nil
            } else {
                isDue =
                    try rules < Fold.rulesVersion && !isBeingRefoldedByNewerRelease(due.number, rules: rules, db)
                    && (request.since.map { try hasEvent(of: due.number, since: $0, db) } ?? true)
            }
            if isDue || .now >= end { return Search(due: isDue ? due : nil, last: due.number) }
        }
        return Search()
    }

    /// Returns whether a release with newer fold rules is refolding the driver. That release also completes the refold.
    private static func isBeingRefoldedByNewerRelease(
        _ driver: Int64, rules: Int64, _ db: Database
    ) throws -> Bool {
        guard rules == 0 else { return false }
        let statement = try db.cachedStatement(
            sql: "SELECT EXISTS (SELECT 1 FROM refold WHERE driver = ? AND rules > ?)")
        return try Bool.fetchOne(statement, arguments: [driver, Fold.rulesVersion]) ?? false
    }

    private static func nextUnfinished(_ request: RefoldRequest, _ db: Database) throws -> Search {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT driver.id, driver_id FROM refold CROSS JOIN driver ON driver.id = refold.driver
                WHERE refold.driver > ? AND refold.rules <= ? ORDER BY refold.driver LIMIT 1
                """, arguments: [request.after, Fold.rulesVersion])
        guard let row else { return Search() }
        return Search(due: DueRefold(number: row[0], driver: DriverID(row[1]), now: request.now), last: row[0])
    }

    /// The maximum number of a driver's events that one statement examines.
    private static let partMax = 1_000

    static func hasEvent(of driver: Int64, since: Moment, _ db: Database) throws -> Bool {
        let statement = try db.cachedStatement(
            sql: "SELECT EXISTS (SELECT 1 FROM \(DriverEvents.listedSQL()) WHERE received_at_ms >= ?)")
        // Most events are received in the order of the fold. The search therefore begins at the end of that order.
        var events = try DriverEvents(of: driver, .backward, db)
        while case let ids = try events.next(partMax), !ids.isEmpty {
            let arguments: StatementArguments = [DriverEvents.list(ids), since.millisecondsSinceEpoch]
            if try Bool.fetchOne(statement, arguments: arguments) == true { return true }
        }
        return false
    }

    /// Returns the time of the driver's first event whose settings the correction changes; nil if there is none.
    /// Ignores events below the driver's floor.
    static func firstChange(of driver: Int64, _ settings: FoldSettings, _ db: Database) throws -> Moment? {
        let floor = try Int64.fetchOne(db, sql: "SELECT floor_at_ms FROM driver WHERE id = ?", arguments: [driver])
        let statement = try db.cachedStatement(
            sql: """
                SELECT min(corrected_at_ms) FROM \(DriverEvents.listedSQL("?1"))
                WHERE \(FoldSettings.changesSQL)
                """)
        var events = try DriverEvents(of: driver, .forward, times: (floor ?? .min)...Int64.max, db)
        while case let ids = try events.next(partMax), !ids.isEmpty {
            let arguments: StatementArguments = [
                DriverEvents.list(ids), nil, settings.since.millisecondsSinceEpoch,
                settings.until.millisecondsSinceEpoch, settings.version?.row, settings.insteadOf,
            ]
            if let first = try Int64.fetchOne(statement, arguments: arguments) {
                return Moment(millisecondsSinceEpoch: first)
            }
        }
        return nil
    }

    private static func fold(_ correction: Int64, _ db: Database) throws -> FoldSettings {
        guard let found = try SettingsCorrectionRows.foldSettings(correction, db) else {
            throw SQLiteError.unreadable("correction")
        }
        return found
    }
}
