// A driver's row in the table `driver`, and a cache of these rows for the writer. A transaction writes a changed row
// only once, even if it stores many events of the driver.

import Engine
import JourneyModel

/// The writer's copy of one driver's row. It is a class, so that callers change the cached copy in place. If a caller
/// throws after a change, the whole cache must be emptied.
final class DriverRow {
    /// The last event in the contract's order.
    struct Head {
        var event: Int64
        var correctedAt: Moment
    }

    /// The value of `rules` if two releases have folded the events. It is lower than `Fold.rulesVersion` of every
    /// release, so that each release refolds the driver.
    static let mixedRules: Int64 = -1

    let id: Int64
    let driver: DriverID
    private(set) var clockMemory: ClockMemory
    /// Whether `clockMemory` has changed. The column is written only if true.
    fileprivate var hasNewClockMemory = false
    /// Nil while no event at or after `floor` is stored.
    var head: Head?
    /// If retention has deleted events, the time at which the fold begins; otherwise nil.
    let floor: Moment?
    /// `Fold.rulesVersion` of the release that folded the driver's events; 0 while a refold is not complete;
    /// `mixedRules` if two releases have folded the events.
    private(set) var rules: Int64
    /// The end of the driver's chain of events (EventChain.swift).
    private(set) var chain: ChainEnd
    /// Whether `chain` has changed. The column is written only if true.
    fileprivate var hasNewChain = false
    /// The journey after the head event.
    private(set) var journey: StoredJourney
    /// The column `recent_changes`, in the format of RecentChanges.swift.
    private(set) var recentChanges: [UInt8]
    /// Whether `recentChanges` has changed. The column is written only if true.
    fileprivate(set) var hasNewChanges = false
    /// The place (charger or merchant) whose use by this driver was recorded last (TextReferences.swift).
    var lastPlace: Int64?
    /// Whether the row is in the cache. If it is not, its changes must be written at once, because the next lookup
    /// reads the database.
    fileprivate var isRemembered = false
    fileprivate var isToBeWritten = false

    fileprivate init(
        id: Int64, driver: DriverID, clockMemory: ClockMemory = ClockMemory(), head: Head? = nil, floor: Moment? = nil,
        rules: Int64 = Fold.rulesVersion, chain: ChainEnd = ChainEnd(), journey: StoredJourney = StoredJourney(),
        recentChanges: [UInt8] = []
    ) {
        self.id = id
        self.driver = driver
        self.clockMemory = clockMemory
        self.head = head
        self.floor = floor
        self.rules = rules
        self.chain = chain
        self.journey = journey
        self.recentChanges = recentChanges
    }

    /// Appends an event to the driver's chain, and returns the ids for the event's columns `previous` and `jump`. If
    /// the event does not come after all others, changes nothing and returns nil.
    func append(_ event: Int64, at time: Int64) -> (previous: Int64?, jump: Int64?)? {
        guard chain.isBefore(time) else { return nil }
        hasNewChain = true
        return chain.append(event, at: time)
    }

    func changeChain<Value>(
        _ change: (inout ChainEnd) throws(SQLiteError) -> Value
    ) throws(SQLiteError) -> Value {
        hasNewChain = true
        return try change(&chain)
    }

    func remember(_ memory: ClockMemory) {
        if memory == clockMemory { return }
        clockMemory = memory
        hasNewClockMemory = true
    }

    /// If `sessionID` is the id of the journey's session, returns the session's row number; otherwise nil. The
    /// session's driver is not compared, because a journey names only sessions of its own driver.
    func sessionRow(named sessionID: String) -> Int64? {
        guard let session = journey.session, let current = journey.journey.sessionID,
            haveSameBytes(current, sessionID)
        else { return nil }
        return session
    }

    /// Replaces the driver's journey. If readers of the journey's stream would see a difference, records a change with
    /// the cause `event`.
    func move(to journey: StoredJourney, by event: Int64) {
        let isSeen =
            self.journey.journey.state != journey.journey.state
            || self.journey.journey.graceDeadline != journey.journey.graceDeadline
            || self.journey.journey.hardDeadline != journey.journey.hardDeadline
            || self.journey.session != journey.session || self.journey.journey.endedBy != journey.journey.endedBy
        self.journey = journey
        guard isSeen else { return }
        RecentChanges.append(
            RecentChanges.Change(
                event: event, state: journey.journey.state, session: journey.session,
                graceDeadline: journey.journey.graceDeadline, hardDeadline: journey.journey.hardDeadline,
                endedBy: journey.journey.endedBy),
            to: &recentChanges)
        hasNewChanges = true
    }

    /// Sets the result of a refold by the fold rules of this release or by a correction of settings.
    ///
    /// If the journey changes, deletes the recent changes, because no event caused the new journey. A reader that
    /// reconnects to the stream then gets the current state instead of the missed changes.
    func replaceFold(head: Head?, journey: StoredJourney) {
        rules = Fold.rulesVersion
        self.head = head
        if self.journey.journey != journey.journey {
            recentChanges = []
            hasNewChanges = true
        }
        self.journey = journey
    }

    /// Marks the driver as partly refolded (`rules` is then 0). The table `refold` holds the progress.
    func beginRefold() { rules = 0 }

    func completeRefold() { rules = Fold.rulesVersion }

    var isRefolding: Bool { rules == 0 }

    /// Must be called before this release folds an event onto a journey that another release has folded.
    func noteMixedRules() {
        if needsRefold, !isRefolding { rules = Self.mixedRules }
    }

    /// Whether the driver's events must be refolded by the rules of this release. `EventAppending.mustRefold` tells
    /// which events wait for the refold.
    var needsRefold: Bool { rules < Fold.rulesVersion }

    var isOfNewerRelease: Bool { rules > Fold.rulesVersion }
}

/// Caches rows of the table `driver`, with the current transaction's unwritten changes. `forget` must be called after
/// every rollback, and when other code or another connection has changed the table.
///
/// Only `writeChanged` writes the changes of cached rows to the database. It must be called before other code reads or
/// changes the table, before a savepoint is created or released, and before COMMIT.
final class DriverCache {
    /// The maximum number of cached drivers. A cached driver takes less than a kilobyte.
    private static let rememberedMax = 8192

    /// The cached rows by driver_id. Only drivers with an ASCII driver_id are cached (Texts.swift says why).
    private var remembered: [String: DriverRow] = [:]
    /// Cached rows with unwritten changes.
    private var changed: [DriverRow] = []
    private let find: PreparedStatement
    private let add: PreparedStatement
    private let update: PreparedStatement
    /// Reused for the column `chain` of all rows, so that a write allocates no array.
    private var chainBytes: [UInt8] = []

    init(on connection: OpaquePointer) throws(SQLiteError) {
        find = try PreparedStatement(Self.findSQL, on: connection)
        add = try PreparedStatement(
            "INSERT INTO driver (driver_id, created_at_ms, rules) VALUES (?1, ?2, ?3)", on: connection)
        update = try PreparedStatement(
            """
            UPDATE driver SET last_correction_ms = ?2, head_event = ?3, head_corrected_at_ms = ?4, state = ?5,
            session = ?6, target_charger = ?7, next_target_charger = ?8, grace_deadline_ms = ?9, hard_deadline_ms = ?10,
            ended_by = ?11, previous_session = ?12, rules = ?13, recent_changes = coalesce(?14, recent_changes),
            clock_memory = coalesce(?15, clock_memory), chain = coalesce(?16, chain)
            WHERE id = ?1
            """, on: connection)
    }

    private static let findSQL = """
        SELECT driver.id, last_correction_ms, head_event, head_corrected_at_ms,
            state, session, (SELECT session_id FROM session WHERE session.id = driver.session),
            target_charger, (SELECT place_id FROM place WHERE place.id = target_charger),
            next_target_charger, (SELECT place_id FROM place WHERE place.id = next_target_charger),
            grace_deadline_ms, hard_deadline_ms, ended_by,
            previous_session, (SELECT session_id FROM session WHERE session.id = previous_session),
            recent_changes, floor_at_ms, rules, clock_memory, chain
        FROM driver WHERE driver_id = ?1
        """

    /// Empties the cache, and drops unwritten changes.
    func forget() {
        remembered.removeAll(keepingCapacity: true)
        changed.removeAll(keepingCapacity: true)
    }

    func row(of driver: DriverID) throws(SQLiteError) -> DriverRow? {
        if let row = remembered[driver.rawValue], driver.rawValue.hasSameBytes(asASCII: row.driver.rawValue) {
            return row
        }
        let row = try storedRow(of: driver)
        if let row { try remember(row) }
        return row
    }

    /// Caches the row if its driver_id is ASCII. If the cache is full, first writes all changed rows and empties the
    /// cache.
    private func remember(_ row: DriverRow) throws(SQLiteError) {
        guard row.driver.rawValue.isASCII else { return }
        if remembered.count >= Self.rememberedMax {
            try writeChanged()
            forget()
        }
        row.isRemembered = true
        remembered[row.driver.rawValue] = row
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
                id: row.integer(0), driver: driver,
                clockMemory: ClockMemory(lastCorrectionMilliseconds: row.optionalInteger(1), bytes: row.blob(19)),
                head: head, floor: row.optionalInteger(17).map(Moment.init(millisecondsSinceEpoch:)),
                rules: row.integer(18), chain: try ChainEnd(bytes: row.blob(20)),
                journey: try StoredJourney(row, at: 4),
                recentChanges: row.blob(16))
        }
    }

    func add(_ driver: DriverID, at now: Moment) throws(SQLiteError) -> DriverRow {
        let id = try add.inserted { (bindings) throws(SQLiteError) in
            try bindings.set(1, driver.rawValue)
            try bindings.set(2, now.millisecondsSinceEpoch)
            try bindings.set(3, Fold.rulesVersion)
        }
        let row = DriverRow(id: id, driver: driver)
        try remember(row)
        return row
    }

    /// A cached row is written at the next `writeChanged`, any other row at once.
    func write(_ row: DriverRow) throws(SQLiteError) {
        guard row.isRemembered else { return try writeNow(row) }
        if row.isToBeWritten { return }
        row.isToBeWritten = true
        changed.append(row)
    }

    func writeChanged() throws(SQLiteError) {
        for row in changed { try writeNow(row) }
        changed.removeAll(keepingCapacity: true)
    }

    private func writeNow(_ row: DriverRow) throws(SQLiteError) {
        try update.run { (bindings) throws(SQLiteError) in
            try bindings.set(1, row.id)
            try bindings.set(2, row.clockMemory.lastCorrectionMilliseconds)
            try bindings.set(3, row.head?.event)
            try bindings.set(4, row.head?.correctedAt.millisecondsSinceEpoch)
            try row.journey.bind(to: bindings, at: 5)
            try bindings.set(13, row.rules)
            if row.hasNewChanges { try bindings.set(14, blob: row.recentChanges) }
            if row.hasNewClockMemory { try bindings.set(15, blob: row.clockMemory.bytes) }
            if row.hasNewChain {
                chainBytes.removeAll(keepingCapacity: true)
                row.chain.write(to: &chainBytes)
                try bindings.set(16, blob: chainBytes)
            }
        }
        row.hasNewChain = false
        row.hasNewClockMemory = false
        row.hasNewChanges = false
        row.isToBeWritten = false
    }
}
