// Rewrites the rows of a driver that is being deleted. A driver may have a million events, so each transaction rewrites
// one piece of the rows. Any instance can continue an interrupted deletion, because the table `erasure` contains its
// progress.
//
// Each session gets a new id, which consists of the pseudonym and the session's number. The rewrite of an event finds
// this number by the session's old id. The rows of sessions must therefore keep the old ids until all events are
// rewritten.
//
// The driver's row gets its new ids first (PostgresEventStore+Erasure). If the server stores an expiry (the event of a
// passed deadline) between two pieces, the expiry takes its ids from this row. It therefore has the new ids.
//
// During a deletion, some rows have old ids and others new ones, so no other code may copy ids between rows. Retention,
// refolds and corrections of settings therefore skip the driver (`DriverStatements.erasing`). If one of these began
// before the deletion, there are two cases:
//
// - It has locked the driver's row. The deletion then waits for it.
// - It has not locked the driver's row yet. Later it finds that the driver's version was raised, and writes nothing.

import JourneyModel
import SharedTables

/// The steps of a deletion, in their order.
enum ErasureStep: String, CaseIterable {
    case audit
    case events
    case sessions

    fileprivate var next: ErasureStep? {
        Self.allCases.firstIndex(of: self).flatMap { index in Self.allCases.dropFirst(index + 1).first }
    }
}

struct ErasureProgress {
    /// The maximum number of rows that one transaction rewrites. The events of one millisecond are rewritten together,
    /// even if they exceed this number.
    static let rowsMax = 500

    private let driver: Int64
    private let pseudonym: String
    private var step: ErasureStep
    /// Identifies the last row that this step has rewritten: by corrected_at_ms in the table of events, and by the
    /// row's number in other tables. Nil at the beginning of a step.
    private var last: Int64?
    /// The number of events rewritten so far. The ranks in the new idempotency keys continue from this number.
    private var eventCount: Int64

    /// SQL condition: no deletion of the driver is under way. `column` of `table` contains the `driver.id`.
    static func isNotErasing(_ table: String, _ column: String = "id") -> String {
        "NOT EXISTS (SELECT 1 FROM erasure WHERE erasure.driver = \(table).\(column))"
    }

    static func begin(_ driver: Int64, _ digest: [UInt8], _ db: any SQLTransaction) throws {
        try db.execute(
            sql: "INSERT INTO erasure (driver, driver_digest, step, event_count) VALUES (?, ?, ?, 0)",
            arguments: [driver, digest, ErasureStep.audit.rawValue])
    }

    static func unfinished(_ digest: [UInt8]?, _ db: any SQLTransaction) throws -> [Int64] {
        try Int64.fetchAll(
            db,
            sql: """
                SELECT driver FROM erasure WHERE CAST(?1 AS bytea) IS NULL OR driver_digest = ?1 ORDER BY driver
                """, arguments: [digest])
    }

    /// Reads the progress; nil when the deletion is complete.
    init?(of driver: Int64, _ db: any SQLTransaction) throws {
        let row = try SQLRow.fetchOne(
            db,
            sql: """
                SELECT driver.driver_id, erasure.step, erasure.last, erasure.event_count
                FROM erasure JOIN driver ON driver.id = erasure.driver
                WHERE erasure.driver = ?1 AND driver.lane = \(Lane.sql(ofDriver: "?1"))
                """, arguments: [driver])
        guard let row else { return nil }
        guard let step = ErasureStep(rawValue: try row[1]) else { throw UnreadableColumn(name: "erasure.step") }
        (self.driver, pseudonym, self.step) = (driver, try row[0], step)
        (last, eventCount) = (try row[2], try row[3])
    }

    /// Rewrites at most `rowsMax` rows. Returns whether the deletion is complete.
    ///
    /// The events of one millisecond are rewritten in one piece, because their new sequences are ranks within the
    /// millisecond. Such a piece may have more than `rowsMax` rows.
    ///
    /// Raises the driver's version first, so that a batch that has read the old rows writes nothing.
    mutating func advance(_ db: any SQLTransaction, rowsMax: Int = ErasureProgress.rowsMax) throws -> Bool {
        try db.execute(
            sql: "UPDATE driver SET version = version + 1 WHERE id = ?1 AND \(Self.isInLane)", arguments: [driver])
        var rowCount = 0
        while rowCount < rowsMax {
            let (count, isDone) = try rewrite(rowsMax - rowCount, db)
            rowCount += count
            guard isDone else { continue }
            guard let next = step.next else {
                try db.execute(sql: "DELETE FROM erasure WHERE driver = ?", arguments: [driver])
                return true
            }
            (step, last) = (next, nil)
        }
        try db.execute(
            sql: "UPDATE erasure SET step = ?, last = ?, event_count = ? WHERE driver = ?",
            arguments: [step.rawValue, last, eventCount, driver])
        return false
    }

    private mutating func rewrite(_ rowsMax: Int, _ db: any SQLTransaction) throws -> (Int, Bool) {
        switch step {
        case .audit: try rewriteAudit(rowsMax, db)
        case .events: try rewriteEvents(rowsMax, db)
        case .sessions: try rewriteSessions(rowsMax, db)
        }
    }

    /// Returns the value of `column` in the last row of the next piece, or nil if fewer than `rowsMax` rows are left.
    private func end(
        _ table: String, _ column: String, where condition: String = "true", _ rowsMax: Int, _ db: any SQLTransaction
    ) throws -> Int64? {
        try Int64.fetchOne(
            db,
            sql: """
                SELECT \(column) FROM \(table) WHERE driver = ?1 AND \(condition) AND \(column) > ?2
                ORDER BY \(column) LIMIT 1 OFFSET ?3
                """, arguments: [driver, last ?? .min, rowsMax - 1])
    }

    // MARK: Rows of the driver

    /// SQL condition that a row lies in the lane of the driver ?1. With this condition, Citus sends the statement only
    /// to the server that has the driver.
    private static let isInLane = "lane = \(Lane.sql(ofDriver: "?1"))"

    private mutating func rewriteAudit(_ rowsMax: Int, _ db: any SQLTransaction) throws -> (Int, Bool) {
        let end = try end("audit", "id", rowsMax, db)
        let piece = "driver = ?1 AND id > ?2 AND id <= ?3"
        let arguments: SQLArguments = [driver, last ?? .min, end ?? .max]
        try db.execute(
            sql: "DELETE FROM revocation WHERE sid IN (SELECT sid FROM audit WHERE \(piece))", arguments: arguments)
        let count = try db.execute(
            sql: "UPDATE audit SET sid = NULL, address = NULL, request_id = NULL WHERE \(piece)", arguments: arguments)
        last = end
        return (count, end == nil)
    }

    /// Replaces the ids, idempotency keys, sequences, times and texts that the client sent, because a client can hide
    /// any information in them. The order of the events stays the same:
    /// - Events of one millisecond are ordered by their sequences. Each sequence is replaced by its rank within the
    ///   millisecond.
    /// - If this order leaves a tie, the bytes of event_id and the idempotency key decide. The new key contains the
    ///   event's rank in this order, as a number of fixed length. The new event_id is NULL, so the key is the event's
    ///   id.
    ///
    /// Of the time that the client sent, two facts are kept: the moment, and whether the text had a fraction of a
    /// second.
    ///
    /// The subquery `ranked` computes the new text of the time, because Citus does not allow `to_char` in the SET list.
    /// It is MATERIALIZED, because with outdated statistics PostgreSQL could run the subquery once per event.
    private mutating func rewriteEvents(_ rowsMax: Int, _ db: any SQLTransaction) throws -> (Int, Bool) {
        let end = try end("event", "corrected_at_ms", where: Self.isInLane, rowsMax, db)
        let count = try db.execute(
            sql: """
                WITH ranked AS MATERIALIZED (
                    SELECT event.seq AS ranked_seq, ?5 + row_number() OVER (
                            ORDER BY corrected_at_ms, coalesce(event_id, idempotency_key), idempotency_key) AS place,
                        dense_rank() OVER (PARTITION BY corrected_at_ms ORDER BY sequence NULLS FIRST)
                            AS sequence_place,
                        to_char(TIMESTAMP 'epoch' + occurred_at_ms * INTERVAL '1 millisecond',
                            CASE WHEN strpos(occurred_at, '.') > 0 THEN 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'
                            ELSE 'YYYY-MM-DD"T"HH24:MI:SS"Z"' END) AS occurred_at
                    FROM event WHERE event.driver = ?1 AND event.\(Self.isInLane)
                        AND corrected_at_ms > ?3 AND corrected_at_ms <= ?4)
                UPDATE event SET idempotency_key = ?2 || '-' || lpad(CAST(ranked.place AS text), 12, '0'),
                    event_id = NULL, digest = decode(repeat('00', 32), 'hex'), metadata = NULL, details = NULL,
                    sequence = CASE WHEN sequence IS NOT NULL THEN ranked.sequence_place END,
                    occurred_at = ranked.occurred_at, \(ErasedTexts.rewrittenEvent)
                FROM ranked
                WHERE event.driver = ?1 AND event.\(Self.isInLane) AND event.seq = ranked.ranked_seq
                    AND event.corrected_at_ms > ?3 AND event.corrected_at_ms <= ?4
                """,
            arguments: [driver, pseudonym, last ?? .min, end ?? .max, eventCount])
        eventCount += Int64(count)
        last = end
        return (count, end == nil)
    }

    private mutating func rewriteSessions(_ rowsMax: Int, _ db: any SQLTransaction) throws -> (Int, Bool) {
        // `+number` prevents the use of the index on number. With that index, PostgreSQL may read the sessions of all
        // drivers.
        let sessions = try SQLRow.fetchAll(
            db,
            sql: """
                SELECT number, session_id FROM session
                WHERE driver = ?1 AND \(Self.isInLane) AND +number > ?2 ORDER BY +number LIMIT ?3
                """, arguments: [driver, last ?? .min, rowsMax])
        for session in sessions {
            let number: Int64 = try session[0]
            let (old, new): (String, String) = (try session[1], "\(pseudonym)-\(number)")
            try db.execute(
                sql: """
                    UPDATE session SET session_id = ?2, registered_charger = NULL, registered_merchant = NULL
                    WHERE driver = ?1 AND \(Self.isInLane) AND session_id = ?3
                    """, arguments: [driver, new, old])
            // The row is replaced, because the new session_id has another lane.
            let owned = try SQLRow.fetchOne(
                db,
                sql: """
                    DELETE FROM session_owner WHERE lane = CAST(? AS int2) AND session_id = ? AND owner = ?
                    RETURNING owner_lane, claimed_at_ms
                    """, arguments: [Int64(Lane.of(old)), old, driver])
            if let owned {
                let (ownerLane, claimedAt): (Int64, Int64) = (try owned[0], try owned[1])
                try db.execute(
                    sql: """
                        INSERT INTO session_owner (lane, session_id, owner_lane, owner, claimed_at_ms)
                        VALUES (CAST(? AS int2), ?, CAST(? AS int2), ?, ?)
                        """, arguments: [Int64(Lane.of(new)), new, ownerLane, driver, claimedAt])
            }
            last = number
        }
        return (sessions.count, sessions.count < rowsMax)
    }
}
