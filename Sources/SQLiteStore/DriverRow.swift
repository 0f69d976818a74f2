// A driver's row: the head of the fold, and the last correction of the phone's clock. Read once for each append, and
// written once.

import Engine
import JourneyModel

struct DriverRow {
    /// The last event in the contract's order.
    struct Head {
        var event: Int64
        var correctedAt: Moment
    }

    var id: Int64
    var lastCorrectionMilliseconds: Int64?
    /// Nil while no event is stored, or none at the floor or above it.
    var head: Head?
    /// Where the fold begins, once retention has deleted what came before. Nil: at the first event.
    var floor: Moment?
    /// After the head.
    private(set) var journey: StoredJourney
    /// See RecentChanges.swift.
    private(set) var recentChanges: [UInt8]
    /// Only then is the column written.
    private(set) var hasNewChanges = false
}

extension DriverRow {
    /// The head has another journey now, made by that event; remembered as a change if a reader of the journey's
    /// stream would see the difference.
    mutating func move(to journey: StoredJourney, by event: Int64) {
        let (before, after) = (self.journey.journey, journey.journey)
        let isSeen =
            before.state != after.state || before.graceDeadline != after.graceDeadline
            || before.hardDeadline != after.hardDeadline || self.journey.session != journey.session
        self.journey = journey
        guard isSeen else { return }
        RecentChanges.append(
            RecentChanges.Change(
                event: event, state: after.state, session: journey.session, graceDeadline: after.graceDeadline,
                hardDeadline: after.hardDeadline), to: &recentChanges)
        hasNewChanges = true
    }

    /// The same, once it is written.
    fileprivate var written: DriverRow {
        var row = self
        row.hasNewChanges = false
        return row
    }
}

/// The drivers seen last are remembered as they stand in the transaction under way. So `forget` is called after every
/// rollback, after a change of the table by other means than this one, and when another connection has written.
final class DriverTable {
    /// Under a kilobyte each.
    private static let rememberedMax = 8192

    /// By driver_id, kept and asked for ASCII only: Swift finds canonically equivalent texts equal, which SQLite does
    /// not.
    private var remembered: [String: DriverRow] = [:]
    private let find: PreparedStatement
    private let add: PreparedStatement
    private let update: PreparedStatement

    init(on connection: OpaquePointer) throws(SQLiteError) {
        find = try PreparedStatement(Self.findSQL, on: connection)
        add = try PreparedStatement(
            "INSERT INTO driver (driver_id, created_at_ms) VALUES (?1, ?2)", on: connection)
        update = try PreparedStatement(
            """
            UPDATE driver SET last_correction_ms = ?2, head_event = ?3, head_corrected_at_ms = ?4, state = ?5,
            session = ?6, target_charger = ?7, next_target_charger = ?8, grace_deadline_ms = ?9, hard_deadline_ms = ?10,
            recent_changes = coalesce(?11, recent_changes)
            WHERE id = ?1
            """, on: connection)
    }

    /// Texts of session and places are looked up only where there is a number.
    private static let findSQL = """
        SELECT driver.id, last_correction_ms, head_event, head_corrected_at_ms,
            state, session, (SELECT session_id FROM session WHERE session.id = driver.session),
            target_charger, (SELECT place_id FROM place WHERE place.id = target_charger),
            next_target_charger, (SELECT place_id FROM place WHERE place.id = next_target_charger),
            grace_deadline_ms, hard_deadline_ms, recent_changes, floor_at_ms
        FROM driver WHERE driver_id = ?1
        """

    func forget() {
        remembered.removeAll(keepingCapacity: true)
    }

    func row(of driver: DriverID) throws(SQLiteError) -> DriverRow? {
        guard driver.rawValue.isASCII else { return try storedRow(of: driver) }
        if let row = remembered[driver.rawValue] { return row }
        let row = try storedRow(of: driver)
        if let row { remember(row, of: driver) }
        return row
    }

    /// Starts over when it is full: who is on the road comes back with the next event.
    private func remember(_ row: DriverRow, of driver: DriverID) {
        guard driver.rawValue.isASCII else { return }
        if remembered.count >= Self.rememberedMax { forget() }
        remembered[driver.rawValue] = row
    }

    private func storedRow(of driver: DriverID) throws(SQLiteError) -> DriverRow? {
        try find.first { (bindings) throws(SQLiteError) in
            try bindings.set(1, driver.rawValue)
        } read: { (row) throws(SQLiteError) in
            var head: DriverRow.Head?
            if let event = row.optionalInteger(2) {
                head = DriverRow.Head(
                    event: event, correctedAt: Moment(millisecondsSinceEpoch: row.integer(3)))
            }
            return DriverRow(
                id: row.integer(0), lastCorrectionMilliseconds: row.optionalInteger(1), head: head,
                floor: row.optionalInteger(14).map(Moment.init(millisecondsSinceEpoch:)),
                journey: try StoredJourney(row, at: 4), recentChanges: row.blob(13))
        }
    }

    func add(_ driver: DriverID, at now: Moment) throws(SQLiteError) -> DriverRow {
        let id = try add.inserted { (bindings) throws(SQLiteError) in
            try bindings.set(1, driver.rawValue)
            try bindings.set(2, now.millisecondsSinceEpoch)
        }
        return DriverRow(
            id: id, lastCorrectionMilliseconds: nil, head: nil, journey: StoredJourney(), recentChanges: [])
    }

    func write(_ row: DriverRow, of driver: DriverID) throws(SQLiteError) {
        try update.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, row.id)
            try bindings.set(2, row.lastCorrectionMilliseconds)
            try bindings.set(3, row.head?.event)
            try bindings.set(4, row.head?.correctedAt.millisecondsSinceEpoch)
            try row.journey.bind(to: bindings, at: 5)
            if row.hasNewChanges { try bindings.set(11, blob: row.recentChanges) }
        }
        remember(row.written, of: driver)
    }
}
