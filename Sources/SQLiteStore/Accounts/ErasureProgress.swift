// Continues the deletion of a driver that Erasing.swift began. Each transaction rewrites only some of the driver's
// rows, because a driver with a million events must not block other writes. The table `erasure` stores the progress, so
// that the deletion continues after a restart.

import GRDB
import Identity
import JourneyModel
import SharedTables

/// The steps of a driver's deletion, in order. Sessions come before events. Otherwise an expiry stored after the step
/// `events` could contain the session's old id in its idempotency key.
enum ErasureStep: String, CaseIterable {
    case audit
    case sessions
    case events
    case places
    case eventKinds = "event_kinds"
    /// All tables are rewritten, but the WAL may still contain old bytes of their rows. After this step, the writer
    /// truncates the WAL.
    case wal

    fileprivate var next: ErasureStep? {
        Self.allCases.firstIndex(of: self).flatMap { index in Self.allCases.dropFirst(index + 1).first }
    }

    /// Whether the writer can keep its caches, because this step changes none of the rows in them: drivers, shared
    /// texts, and the records of which drivers use a text.
    fileprivate var keepsDriverCache: Bool { self == .audit || self == .events || self == .wal }
}

/// The result of one transaction of a deletion.
struct ErasurePiece {
    /// The step at which the deletion continues; nil when the deletion is complete.
    var step: ErasureStep?
    var rowCount = 0
    /// Whether this was the last piece.
    fileprivate var completes = false
    fileprivate var keepsDriverCache = true

    /// Makes the writer empty its caches, because the transaction changes rows that they hold.
    mutating func changesDrivers() { keepsDriverCache = false }

    var effects: ChangeEffects { ChangeEffects(purgesWAL: completes, keepsDriverCache: keepsDriverCache) }
}

struct ErasureProgress {
    /// Row number in `driver`. `pseudonym` replaces the driver's id.
    let driver: Int64
    private let pseudonym: String
    private var step: ErasureStep
    private var last: Int64?
    private var eventCount: Int64

    /// SQL condition on a row of `event`: its driver's deletion is in progress.
    static let isUnderWaySQL = "EXISTS (SELECT 1 FROM erasure WHERE erasure.driver = event.driver)"

    static func begin(_ driver: Int64, _ digest: [UInt8], _ db: Database) throws {
        try db.execute(
            sql: "INSERT INTO erasure (driver, driver_digest, step, event_count) VALUES (?, ?, ?, 0)",
            arguments: [driver, digest.data, ErasureStep.audit.rawValue])
    }

    /// Returns the row numbers of the drivers whose deletion is not complete. If `digest` is not nil, returns only the
    /// driver with this keyed hash.
    static func unfinished(_ digest: [UInt8]?, _ db: Database) throws -> [Int64] {
        try Int64.fetchAll(
            db, sql: "SELECT driver FROM erasure WHERE ?1 IS NULL OR driver_digest = ?1 ORDER BY driver",
            arguments: [digest?.data])
    }

    /// Reads the progress; nil when the deletion is complete.
    init?(of driver: Int64, _ db: Database) throws {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT driver_id, step, last, event_count FROM erasure JOIN driver ON driver.id = driver
                WHERE driver = ?
                """, arguments: [driver])
        guard let row else { return nil }
        guard let step = ErasureStep(rawValue: row[1]) else { throw SQLiteError.unreadable("erasure.step") }
        (self.driver, pseudonym, self.step, last, eventCount) = (driver, row[0], step, row[2], row[3])
    }

    /// Rewrites rows, in one or more steps. Stops after `rowsMax` rows, but never between two events of one
    /// millisecond. Otherwise the order of these events would change.
    ///
    /// Completes the deletion when no row is left to rewrite. If `mayComplete` is false, a call that has rewritten rows
    /// leaves the completion to the next call.
    mutating func advance(rowsMax: Int, mayComplete: Bool, _ db: Database) throws -> ErasurePiece {
        var piece = ErasurePiece(step: step)
        while let step = piece.step, piece.rowCount < rowsMax {
            if step == .wal, piece.rowCount > 0, !mayComplete { break }
            let (rowCount, isDone) = try rewrite(step, rowsMax: rowsMax - piece.rowCount, db)
            piece.rowCount += rowCount
            if !step.keepsDriverCache, rowCount > 0 { piece.changesDrivers() }
            if isDone { (piece.step, last) = (step.next, nil) }
        }
        if let step = piece.step {
            self.step = step
            try db.execute(
                sql: "UPDATE erasure SET step = ?, last = ?, event_count = ? WHERE driver = ?",
                arguments: [step.rawValue, last, eventCount, driver])
        } else {
            try db.execute(sql: "DELETE FROM erasure WHERE driver = ?", arguments: [driver])
            piece.completes = true
        }
        return piece
    }

    private mutating func rewrite(
        _ step: ErasureStep, rowsMax: Int, _ db: Database
    ) throws -> (rowCount: Int, isDone: Bool) {
        switch step {
        case .audit: try rewriteAudit(rowsMax, db)
        case .sessions: try rewriteSessions(rowsMax, db)
        case .events: try rewriteEvents(rowsMax, db)
        case .places: try rewriteTexts("place_use", "place", rowsMax, db, rewritePlaces)
        case .eventKinds: try rewriteTexts("event_kind_use", "kind", rowsMax, db, rewriteEventKinds)
        case .wal: (0, true)
        }
    }

    /// Finds the next `rowsMax` rows in the order of `column`. Returns the value of `column` in the last of these rows;
    /// nil if fewer rows are left.
    private func end(_ table: String, _ column: String, _ rowsMax: Int, _ db: Database) throws -> Int64? {
        try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT \(column) FROM \(table) WHERE driver = ?1 AND \(column) > ?2 ORDER BY \(column)
                    LIMIT 1 OFFSET ?3
                    """),
            arguments: [driver, last ?? .min, rowsMax - 1])
    }

    // MARK: Rows of the driver

    private mutating func rewriteAudit(_ rowsMax: Int, _ db: Database) throws -> (Int, Bool) {
        let end = try end("audit", "id", rowsMax, db)
        let piece = "driver = ?1 AND id > ?2 AND id <= ?3"
        let arguments: StatementArguments = [driver, last ?? .min, end ?? .max]
        try db.execute(
            sql: "DELETE FROM revocation WHERE sid IN (SELECT sid FROM audit WHERE \(piece))", arguments: arguments)
        try db.execute(
            sql: "UPDATE audit SET sid = NULL, address = NULL, request_id = NULL WHERE \(piece)", arguments: arguments)
        last = end
        return (db.changesCount, end == nil)
    }

    private mutating func rewriteSessions(_ rowsMax: Int, _ db: Database) throws -> (Int, Bool) {
        let end = try end("session", "id", rowsMax, db)
        try db.execute(
            sql: """
                UPDATE session SET session_id = ?4 || '-' || id, registered_charger = NULL, registered_merchant = NULL
                WHERE driver = ?1 AND id > ?2 AND id <= ?3
                """, arguments: [driver, last ?? .min, end ?? .max, pseudonym])
        last = end
        return (db.changesCount, end == nil)
    }

    /// Replaces the ids, idempotency keys, sequences and times that the client sent, because they could identify the
    /// driver. The new values must not change the order of the events.
    ///
    /// Events of one millisecond are ordered by sequence, then by members that this function does not change, then by
    /// the bytes of event_id and idempotency key.
    ///
    /// - The new sequence is the old sequence's rank among the sequences of the same millisecond.
    /// - The new idempotency key ends with the event's rank by time, event_id and old key. The rank has a fixed length.
    /// - event_id becomes NULL, which means that it equals the idempotency key.
    ///
    /// A client can write any data into the digits and the offset of a time. The only facts kept are the moment and
    /// whether the time had a fraction of a second.
    private mutating func rewriteEvents(_ rowsMax: Int, _ db: Database) throws -> (Int, Bool) {
        // `last` is the time of the last rewritten event.
        let start = last.map { $0 + 1 } ?? .min
        var events = try DriverEvents(of: driver, .forward, times: start...Int64.max, db)
        let ids = try events.next(rowsMax)
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT event.id, ?2 + row_number() OVER (
                        ORDER BY corrected_at_ms, coalesce(event_id, idempotency_key), idempotency_key),
                    dense_rank() OVER (PARTITION BY corrected_at_ms ORDER BY sequence), corrected_at_ms
                FROM \(DriverEvents.listedSQL("?1")) ORDER BY corrected_at_ms
                """,
            arguments: [DriverEvents.list(ids), eventCount])
        let keys = try EventKeyTable(db)
        for row in rows { try rewriteEvent(row[0], place: row[1], sequencePlace: row[2], keys, db) }
        eventCount += Int64(rows.count)
        last = ids.count < rowsMax ? nil : rows.last?[3]
        return (rows.count, last == nil)
    }

    /// Gives the event an idempotency key that ends with `place`, and removes the other identifying values.
    /// `occurred_at` becomes one of the two texts that can be computed from the moment (OccurredAtColumn.swift).
    ///
    /// In an event of an old release, only the metadata contains the state that the phone reported. The fold needs this
    /// state, so it is copied to `previous_state` when the metadata is removed.
    private func rewriteEvent(
        _ event: Int64, place: Int64, sequencePlace: Int64, _ keys: EventKeyTable, _ db: Database
    ) throws {
        let digits = String(place)
        let key = "\(pseudonym)-\(String(repeating: "0", count: max(0, 12 - digits.count)))\(digits)"
        try keys.remove(event)
        try db.cachedStatement(
            sql: """
                UPDATE event_row SET key = ?2, event_id = NULL, digest = zeroblob(16), metadata = NULL, details = NULL,
                    previous_state = coalesce(previous_state, CASE
                        WHEN instr(metadata, '"previous_state"') > 0 THEN \(EventTable.evidenceSQL) END),
                    sequence = iif(sequence IS NULL, NULL, ?3),
                    occurred_at_text = iif(occurred_at_text IS NULL OR instr(occurred_at_text, '.'), NULL, '')
                WHERE id = ?1
                """
        ).execute(arguments: [event, StoredKey(key).databaseValue, sequencePlace])
        try keys.add(event, under: StoredKey(key), of: driver)
    }

    // MARK: Shared texts

    /// Overwrites the texts that only this driver uses, and deletes the driver's rows of `table`, which record the use
    /// of texts. A text that other drivers also use identifies nobody, so it remains until its last driver is deleted.
    private func rewriteTexts(
        _ table: String, _ column: String, _ rowsMax: Int, _ db: Database,
        _ overwrite: (String, StatementArguments, Database) throws -> Void
    ) throws -> (Int, Bool) {
        let end = try end(table, column, rowsMax, db)
        let arguments: StatementArguments = [driver, end ?? .max]
        let onlyUsed = """
            SELECT \(column) FROM \(table) WHERE driver = ?1 AND \(column) <= ?2 AND NOT EXISTS (
                SELECT 1 FROM \(table) AS other WHERE other.\(column) = \(table).\(column) AND other.driver <> ?1)
            """
        try overwrite("id IN (\(onlyUsed))", arguments, db)
        try db.execute(sql: "DELETE FROM \(table) WHERE driver = ?1 AND \(column) <= ?2", arguments: arguments)
        return (db.changesCount, end == nil)
    }

    private func rewritePlaces(_ condition: String, _ arguments: StatementArguments, _ db: Database) throws {
        try db.execute(
            sql: "UPDATE place SET place_id = ?3 || '-' || id WHERE \(condition)", arguments: arguments + [pseudonym])
    }

    private func rewriteEventKinds(_ condition: String, _ arguments: StatementArguments, _ db: Database) throws {
        // Each row of `event_kind` gets its own source, because no two rows may be equal.
        try db.execute(
            sql: """
                UPDATE event_kind SET source = ?3 || '-' || id, schema_version = '1.0',
                    name = iif(lifecycle_rank = ?4, 'erased_diagnostic', name),
                    spelling = iif(lifecycle_rank = ?4, 'erased_diagnostic', spelling)
                WHERE \(condition)
                """, arguments: arguments + [pseudonym, EventName.diagnostic("d").lifecycleRank])
    }
}
