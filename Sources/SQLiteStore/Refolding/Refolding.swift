// Refolds the events of one driver, in as many of the writer's transactions as needed. The table `refold` holds the
// progress. A refold has one of three causes:
//
// - New fold rules in this release. The refold covers all events, or all events from the driver's floor on.
// - A correction of settings. The refold covers all events from the first corrected event on.
// - A late event, if it changes more events than one transaction may refold. The refold ends as soon as the new
//   journey equals the stored one.
//
// Old releases did not store the state that a phone reported. They also did not store whether the text of an event's
// time has a fraction of a second. Both values are derived from the stored metadata and text.
//
// A refold that was not caused by a late event reads the events in batches. Before it reads a batch, it stores the
// values that are missing in the batch's rows.

import Engine
import JourneyModel
import RateLimiting

final class Refolding {
    private let folding: EventFolding
    private let events: EventTable
    private let table: RefoldTable
    private let findEvidence: PreparedStatement
    private let findWholeSeconds: PreparedStatement
    private let corrections: SettingsCorrectionTable
    /// The counts of an unfinished refold that was not caused by a late event, with the driver and the last refolded
    /// event.
    ///
    /// Only the counts of one refold are kept, and only in memory. A restart or a refold of another driver loses them.
    /// The result then lacks the changed sessions that were counted before the loss.
    private var tallySoFar: (driver: Int64, last: Int64, tally: RefoldTally)?
    /// Counts for a correction of settings that no request has reported yet. A request to apply the correction reports
    /// the events that it refolds itself. Other work, such as a late event of the driver, may also refold events with
    /// the correction. These events are counted here.
    private var unreported: (correction: Int64, counts: RefoldCounts)?
    /// The claims for late events that services sent, by the event's row number. A claim says against which service's
    /// rate limit the event counts. The event's row does not say which service sent the event.
    ///
    /// A claim is kept until the refold that its event caused is complete. If the event's transaction is rolled back,
    /// the claim stays until another late event of a service gets the same row number.
    private var claims: [Int64: AdmissionClaim] = [:]

    init(
        _ folding: EventFolding, events: EventTable, table: RefoldTable, on connection: OpaquePointer
    ) throws(SQLiteError) {
        self.folding = folding
        self.events = events
        self.table = table
        corrections = try SettingsCorrectionTable(on: connection)
        findEvidence = try PreparedStatement(
            """
            UPDATE event_row SET previous_state = \(EventTable.evidenceSQL)
            WHERE id IN (SELECT value FROM json_each(?1)) AND previous_state IS NULL
                AND instr(metadata, '"previous_state"') > 0
            """, on: connection)
        // Old releases did not store `second_place`. This statement sets it to the event's place in the order of
        // arrival. The refold then replaces it by the place in the order of the fold.
        findWholeSeconds = try PreparedStatement(
            """
            UPDATE event_row SET second_place = arrival.place
            FROM (SELECT event.id AS id,
                    row_number() OVER (PARTITION BY corrected_at_ms, sequence ORDER BY event.id) - 1 AS place
                FROM \(DriverEvents.listedSQL("?1")) CROSS JOIN event_kind ON event_kind.id = event.kind
                WHERE origin = 0 AND instr(occurred_at, '.') = 0) AS arrival
            WHERE event_row.id = arrival.id AND event_row.second_place IS NULL
            """, on: connection)
    }

    func keepUnreported(_ piece: Piece) {
        guard let correction = piece.correction else { return }
        var counts = piece.counts
        if let unreported, unreported.correction == correction { counts += unreported.counts }
        unreported = (correction, counts)
    }

    func takeUnreported(of correction: Int64) -> RefoldCounts {
        guard let unreported, unreported.correction == correction else { return RefoldCounts() }
        self.unreported = nil
        return unreported.counts
    }

    func keep(_ claim: AdmissionClaim, ofEvent event: Int64) { claims[event] = claim }

    /// Must be called after the commit of the transaction that completed the refold.
    func forgetClaim(ofEvent event: Int64) { claims[event] = nil }

    /// The work of one transaction.
    struct Piece {
        var counts = RefoldCounts()
        var rowCount = 0
        var isComplete = false
        var correction: Int64?
        /// How much the refold of a late event adds to the count of a rate limit. Nil if the refold is not complete, or
        /// if no rate limit counts the refold.
        var charge: RefoldCharge?
    }

    /// The correction of settings that a refold applies, and the time of the driver's first event whose settings
    /// change.
    struct Correction {
        var id: Int64
        var from: Moment
    }

    /// Refolds the next events. Stops after `rowsMax` events, but never between two events with the same time.
    ///
    /// - Parameters:
    ///   - correction: the correction of settings that a new refold applies. Ignored if a refold is already in
    ///     progress.
    ///   - now: see `RefoldRequest.now`.
    func fold(
        _ driver: DriverRow, rowsMax: Int, correction: Correction? = nil, now: Moment? = nil
    ) throws(SQLiteError) -> Piece {
        let start = try start(of: driver, correction)
        var piece = Piece(correction: start.correction?.id)
        var expiries: [NewEventRow] = []
        var tally = RefoldTally()
        if let so = tallySoFar, so.driver == driver.id {
            if so.last == start.last?.id { tally = so.tally }
            tallySoFar = nil
        }
        var last = start.last
        var containsHead = false
        var hasMetStoredJourney = false
        var walk = FoldWalk(from: start.journey)
        let correcting = { (row: inout FoldedEventRow) throws(SQLiteError) in
            if let corrected = start.correction { try self.corrections.apply(corrected, to: &row) }
        }
        let filling = { (ids: [Int64]) throws(SQLiteError) in
            if start.cause == nil { try self.fillOldRows(ids) }
        }
        let visit = { (step: FoldWalk.Step) throws(SQLiteError) -> Bool in
            switch step {
            case .expiry(let deadline, let journey, let next):
                expiries.append(
                    try self.folding.expiry(deadline, of: journey, before: start.cause ?? next, driver: driver))
                tally.note(expiry: deadline.name, of: journey)
            case .event(let folded):
                piece.rowCount += 1
                tally.note(folded)
                if folded.isChanged { try self.events.update(folded) }
                last = folded.row
                if folded.row.id == driver.head?.event { containsHead = true }
                hasMetStoredJourney = start.cause != nil && folded.meetsStoredJourney
            }
            return !hasMetStoredJourney
        }
        let hasMore = try walk.take(
            from: driver.chain.last, in: events, startingAt: start.time, rowsMax: rowsMax, prepare: filling,
            correct: correcting, visit)
        for expiry in expiries { _ = try events.add(expiry, to: driver) }

        let head = last.map { DriverRow.Head(event: $0.id, correctedAt: $0.event.occurredAt) }
        if start.cause != nil, containsHead { driver.head = head }
        let rowCount = start.rowCount + piece.rowCount
        if hasMore, let last {
            let mark = RefoldMark(
                cause: start.cause?.id, correction: start.correction?.id, last: last.id, rowCount: rowCount)
            try table.write(mark, of: driver.id)
            driver.beginRefold()
            if start.cause == nil {
                piece.counts = tally.takeCounts()
                tallySoFar = (driver.id, last.id, tally)
            }
            return piece
        }
        piece.isComplete = true
        if let cause = start.cause {
            if !hasMetStoredJourney { driver.move(to: walk.running, by: cause.id) }
            piece.charge = charge(for: cause, of: driver, rowCount: rowCount)
        } else {
            tally.finish(stored: driver.journey, folded: walk.running, now: now)
            piece.counts = tally.counts
            if start.correction != nil, driver.journey.journey != walk.running.journey {
                try corrections.noteCorrected(driver.id)
            }
            driver.replaceFold(head: head, journey: walk.running)
        }
        try table.remove(driver.id)
        driver.completeRefold()
        return piece
    }

    /// Returns how much the refold by the late event `cause` adds to the count of a rate limit. Returns nil if the
    /// service that sent the event is unknown because the server was restarted. The driver's limit does not count such
    /// a refold either.
    private func charge(for cause: FoldedEventRow, of driver: DriverRow, rowCount: Int) -> RefoldCharge? {
        if cause.event.sender == .service {
            return claims[cause.id].map { RefoldCharge($0, rowCount: rowCount, keptFor: cause.id) }
        }
        return RefoldCharge(
            AdmissionClaim(
                driver: driver.driver, hasSession: cause.event.sessionID != nil,
                idempotencyKey: cause.event.idempotencyKey), rowCount: rowCount)
    }

    /// The position at which the next piece begins.
    private struct Start {
        var journey: StoredJourney
        /// The event right before the events to be refolded. Nil if the piece starts at the beginning of the fold.
        var last: FoldedEventRow?
        var time: Moment
        var cause: FoldedEventRow?
        var correction: SettingsCorrectionTable.Row?
        var rowCount = 0
    }

    private func start(of driver: DriverRow, _ new: Correction?) throws(SQLiteError) -> Start {
        let mark = driver.isRefolding ? try table.mark(of: driver.id) : nil
        if let mark, mark.rules == Fold.rulesVersion {
            guard let last = try events.event(mark.last) else { throw .unreadable("refold") }
            var start = Start(
                journey: last.after, last: last, time: last.event.occurredAt.advanced(byMilliseconds: 1),
                correction: try correction(mark.correction), rowCount: mark.rowCount)
            if let cause = mark.cause {
                start.cause = try events.event(cause)
                if start.cause == nil { throw .unreadable("refold") }
            }
            return start
        }
        if !driver.needsRefold, let new { return try start(of: driver, correcting: new) }
        // If another release began the refold with other fold rules, its progress cannot be used. The refold then
        // starts over. If that release was applying a correction of settings, the new refold also applies it.
        return Start(
            journey: try folding.journeyAtFloor(of: driver),
            time: driver.floor ?? Moment(millisecondsSinceEpoch: .min),
            correction: try correction(mark?.correction ?? new?.id))
    }

    /// Stores the values that old releases did not store. `ids` must contain either all or none of the events with the
    /// same time, because `second_place` is computed from their order.
    private func fillOldRows(_ ids: [Int64]) throws(SQLiteError) {
        let list = DriverEvents.list(ids)
        for statement in [findEvidence, findWholeSeconds] {
            try statement.run { (bindings) throws(SQLiteError) in try bindings.set(1, list) }
        }
    }

    /// Starts at the first event whose settings the correction changes, because the events before it stay unchanged.
    private func start(of driver: DriverRow, correcting new: Correction) throws(SQLiteError) -> Start {
        let time = driver.floor.map { max($0, new.from) } ?? new.from
        let last = try events.last(from: driver.chain.last, before: time, notBefore: driver.floor)
        let journey = if let last { last.after } else { try folding.journeyAtFloor(of: driver) }
        return Start(journey: journey, last: last, time: time, correction: try correction(new.id))
    }

    private func correction(_ id: Int64?) throws(SQLiteError) -> SettingsCorrectionTable.Row? {
        guard let id else { return nil }
        guard let row = try corrections.row(id) else { throw .unreadable("correction") }
        return row
    }
}

/// How much the refold by a late event adds to the count of a rate limit. The late event itself is counted separately.
struct RefoldCharge {
    var claim: AdmissionClaim
    var rowCount: Int
    /// The row number of the late event if `Refolding` keeps a claim for it.
    var keptFor: Int64?

    init(_ claim: AdmissionClaim, rowCount: Int, keptFor: Int64? = nil) {
        self.claim = claim
        self.rowCount = rowCount
        self.keptFor = keptFor
    }
}
