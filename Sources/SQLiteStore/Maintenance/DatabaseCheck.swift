// `dwell check`: verifies the integrity of the file, and that every stored verdict and journey equals the result of the
// fold.
//
// Folds each driver's events in memory. Begins at the driver's floor (the time before which retention has deleted
// events) or at the first event.
//
// Compares each result with the stored one. Also compares the journey after the last event with the journey in the
// driver's row.
//
// Writes nothing and reads each driver in one snapshot, so a server may run meanwhile.

import Engine
import Foundation
import GRDB
import JourneyModel

package struct DatabaseCheck: Sendable {
    package struct Report: Hashable, Sendable {
        package var drivers = 0
        package var events = 0
        /// Number of skipped drivers: their refold is not complete, or has not begun (`beforeRefold`). Their stored
        /// verdicts may differ from the results of the fold.
        package var refolding = 0
        /// Number of drivers whose deletion is not complete. They are checked like all other drivers.
        package var erasing = 0
        /// The first problems, one sentence each. Empty if there are none.
        package var problems: [String] = []
    }

    /// Maximum number of problems reported. Further problems would add no information.
    package static let problemsMax = 20

    private let path: String
    private let queue: DatabaseQueue

    package init(path: String) throws(MaintenanceRefusal) {
        self.path = path
        do {
            guard DatabaseCopy.exists(path) else { throw MaintenanceRefusal("\(path): file not found") }
            try OpeningObstacle.requireFile(path)
            var configuration = Configuration()
            configuration.readonly = true
            configuration.label = "dwell.check"
            configuration.busyMode = .timeout(DatabaseOpening.busyTimeoutSeconds)
            queue = try DatabaseQueue(path: path, configuration: configuration)
        } catch {
            throw MaintenanceRefusal(path, error)
        }
    }

    package func close() {
        try? queue.close()
    }

    package func run(_ progress: (MaintenanceProgress) -> Void) throws(MaintenanceRefusal) -> Report {
        try run(beforeRefold: false, progress)
    }

    /// - Parameter beforeRefold: whether to skip drivers folded by an older release. A rebuild skips them, because no
    ///   server of this release has refolded them yet. Drivers whose refold is in progress are always skipped.
    func run(
        beforeRefold: Bool, _ progress: (MaintenanceProgress) -> Void
    ) throws(MaintenanceRefusal) -> Report {
        do {
            var report = Report()
            let total = try queue.read { db in
                try MigrationRun().requireDwell(db)
                report.erasing = try ErasureProgress.unfinished(nil, db).count
                if let problem = try DatabaseCopy.integrityProblem(db) { report.problems.append(problem) }
                return try Int.fetchOne(db, sql: "SELECT count(*) FROM event") ?? 0
            }
            try checkKeys(&report.problems)
            let chains = try queue.read { db in
                try DriverEvents.hasChains(db) ? ChainCheck(db) : nil
            }
            var last: Int64 = 0
            while report.problems.count < Self.problemsMax,
                let driver = try queue.read({ db in
                    try Int64.fetchOne(
                        db, sql: "SELECT id FROM driver WHERE id > ? ORDER BY id LIMIT 1", arguments: [last])
                })
            {
                try queue.read { db in
                    let isUnderWay = try Bool.fetchOne(
                        db, sql: "SELECT \(RefoldTable.isUnderWaySQL) FROM driver WHERE id = ?", arguments: [driver])
                    if isUnderWay == true {
                        report.refolding += 1
                        return
                    }
                    // The chain of events does not depend on the fold rules, so it is checked even if an older release
                    // folded the driver.
                    if let broken = try chains?.problems(of: driver, db), !broken.isEmpty {
                        report.problems += broken
                        return
                    }
                    let rules = try Int64.fetchOne(
                        db, sql: "SELECT rules FROM driver WHERE id = ?", arguments: [driver])
                    if beforeRefold, rules != Fold.rulesVersion {
                        report.refolding += 1
                        return
                    }
                    report.drivers += 1
                    var fold = CheckedFold(driver: driver)
                    report.events += try fold.run(db)
                    report.problems += fold.problems
                }
                last = driver
                progress(MaintenanceProgress(done: min(report.events, total), total: total))
            }
            report.problems = Array(report.problems.prefix(Self.problemsMax))
            return report
        } catch {
            throw MaintenanceRefusal(path, RecordsFile.reason(for: error, queue))
        }
    }
}

extension DatabaseCheck {
    private static let keysPerRead = 10_000

    private func checkKeys(_ problems: inout [String]) throws {
        guard var check = try queue.read({ db in try KeyCheck(db) }) else { return }
        while problems.count < Self.problemsMax,
            try queue.read({ db in try check.examine(limit: Self.keysPerRead, &problems, db) })
        {}
    }
}

/// Refolds the events of one driver.
private struct CheckedFold {
    let driver: Int64
    var problems: [String] = []
    private var journey = Journey()
    private var previous: (id: Int64, event: OrderedEvent)?
    /// The events of the second that is being read. Empty while the events have fractions of a second.
    private var second: [(id: Int64, event: OrderedEvent)] = []
    private var journeyBeforeSecond = Journey()

    init(driver: Int64) {
        self.driver = driver
    }

    /// Returns the number of checked events.
    mutating func run(_ db: Database) throws -> Int {
        let floor = try beginAtFloor(db)
        var rows = try DriverEventRows(
            DriverEvents(of: driver, .forward, times: floor...Int64.max, db), sql: Self.eventsSQL, db)
        var count = 0
        while let row = try rows.next() {
            count += 1
            guard problems.count < DatabaseCheck.problemsMax else { break }
            try take(row)
        }
        compareSecond()
        if problems.isEmpty { try compareHead(db) }
        return count
    }

    /// If the driver has a floor, starts from the journey at the floor. Returns the floor in milliseconds. Events
    /// before the floor are not checked, because their effect can no longer be determined.
    private mutating func beginAtFloor(_ db: Database) throws -> Int64 {
        let floor = try Int64.fetchOne(db, sql: "SELECT floor_at_ms FROM driver WHERE id = ?", arguments: [driver])
        let base = try Row.fetchOne(db, sql: Self.baseSQL, arguments: [driver])
        if (floor == nil) != (base == nil) {
            problems.append("driver \(driver): it has a floor without its journey, or a journey without a floor")
        }
        if let base { journey = try StoredEvents.journey(base, 0) }
        return floor ?? .min
    }

    private mutating func take(_ row: Row) throws {
        let id: Int64 = row[0]
        let event = try Self.event(row)
        if let previous, !previous.event.sharesSecond(with: event) {
            if !(previous.event < event) { note(id, "does not come after event \(previous.id)") }
            compareSecond()
        }
        var untilThen = journey
        if let missing = untilThen.takeDeadline(before: event) {
            note(id, "comes after a deadline (\(missing.name.canonical)) whose expiry is not stored")
        }
        if event.isWholeSecond {
            if second.isEmpty { journeyBeforeSecond = untilThen }
            // The fold orders only the first `searchedMax` events of a second. Further events keep their order, so
            // `compareSecond` need not check them.
            if second.count < OrderWithinSecond.searchedMax { second.append((id, event)) }
        }
        let verdict = journey.apply(event)
        let stored = try StoredEvents.verdict(row, 12)
        if verdict != stored { note(id, "is stored as \(Self.text(stored)), the fold gives \(Self.text(verdict))") }
        let after = try StoredEvents.journey(row, 15)
        if journey != after {
            note(id, "is stored with \(after.state) after it, the fold gives \(journey.state) or other deadlines")
            // The check continues from the stored journey. Otherwise it would report the same difference again for
            // every later event.
            journey = after
        }
        previous = (id, event)
    }

    /// Checks that the events of one second are stored in the order that the fold determines.
    private mutating func compareSecond() {
        defer { second.removeAll(keepingCapacity: true) }
        guard second.count > 1 else { return }
        let arrived = second.sorted { $0.id < $1.id }
        let order = OrderWithinSecond.order(of: arrived.map(\.event), from: journeyBeforeSecond)
        guard order.map({ arrived[$0].id }) != second.map(\.id), let first = second.first else { return }
        note(first.id, "and others of its second are not in fold order")
    }

    private mutating func compareHead(_ db: Database) throws {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT head_event, state, (SELECT session_id FROM session WHERE session.id = driver.session),
                    (SELECT place_id FROM place WHERE place.id = target_charger),
                    (SELECT place_id FROM place WHERE place.id = next_target_charger),
                    grace_deadline_ms, hard_deadline_ms, ended_by,
                    (SELECT session_id FROM session WHERE session.id = driver.previous_session), rules
                FROM driver WHERE id = ?
                """, arguments: [driver])
        guard let row else { return }
        let head: Int64? = row[0]
        if head != previous?.id {
            problems.append("driver \(driver): its row does not reference its last event")
        }
        if row[9] as Int64 != Fold.rulesVersion {
            problems.append("driver \(driver): folded by an older release; start the server or run dwell refold")
        }
        if try StoredEvents.journey(row, 1) != journey {
            problems.append("driver \(driver): its row differs from the fold of its events")
        }
    }

    private mutating func note(_ event: Int64, _ what: String) {
        problems.append("driver \(driver), event \(event): \(what)")
    }

    private static func text(_ verdict: Verdict) -> String {
        verdict.transition.rawValue + (verdict.reason.map { " (\($0.rawValue))" } ?? "")
            + (verdict.implied.isEmpty ? "" : " after " + verdict.implied.names.joined(separator: ", "))
    }

    private static func event(_ row: Row) throws -> OrderedEvent {
        guard let origin = UInt8(exactly: row[9] as Int64).flatMap(OrderedEvent.Origin.init(rawValue:)),
            let sender = UInt8(exactly: row[25] as Int64).flatMap(OrderedEvent.Sender.init(rawValue:))
        else { throw SQLiteError.unreadable("origin or sender") }
        return OrderedEvent(
            name: try StoredEvents.name(row, 3), sessionID: row[5], chargerID: row[6],
            occurredAt: Moment(millisecondsSinceEpoch: row[7]), sequence: row[8], eventID: row[1],
            idempotencyKey: row[2], origin: origin, sender: sender,
            previousState: (row[23] as Int64?).flatMap(JourneyState.init(code:)), isWholeSecond: row[24] != nil,
            gracePeriodSeconds: row[10], hardTimeoutSeconds: row[11])
    }

    private static let baseSQL = """
        SELECT state, (SELECT session_id FROM session WHERE session.id = journey_base.session),
            (SELECT place_id FROM place WHERE place.id = target_charger),
            (SELECT place_id FROM place WHERE place.id = next_target_charger), grace_deadline_ms, hard_deadline_ms,
            ended_by, (SELECT session_id FROM session WHERE session.id = journey_base.previous_session)
        FROM journey_base WHERE driver = ?
        """

    /// Selects the driver's events in the contract's order.
    private static let eventsSQL = """
        SELECT event.id, coalesce(event_id, idempotency_key), idempotency_key, name, has_session,
            (SELECT session_id FROM session WHERE session.id = event.session),
            (SELECT place_id FROM place WHERE place.id = event.charger),
            corrected_at_ms, sequence, origin, grace_period_seconds, hard_timeout_seconds,
            transition, reason, implied,
            after_state, (SELECT session_id FROM session WHERE session.id = after_session),
            (SELECT place_id FROM place WHERE place.id = after_target_charger),
            (SELECT place_id FROM place WHERE place.id = after_next_target_charger),
            after_grace_deadline_ms, after_hard_deadline_ms, after_ended_by,
            (SELECT session_id FROM session WHERE session.id = after_previous_session), previous_state, second_place,
            sender
        FROM \(DriverEvents.listedSQL())
        CROSS JOIN event_kind ON event_kind.id = event.kind
        CROSS JOIN settings_version ON settings_version.id = \(EventTable.foldSettingsSQL)
        ORDER BY \(FoldOrder.ascending)
        """
}
