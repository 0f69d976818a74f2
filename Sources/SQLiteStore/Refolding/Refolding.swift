// Refolds the events of one driver, in as many of the writer's transactions as needed. The table `refold` holds the
// progress. A refold has one of three causes:
//
// - New fold rules in this release. The refold goes from the first event, or from the floor, to the last event.
// - A correction of settings. The refold goes from the first corrected event to the last event.
// - A late event that changes more events than one transaction may refold. The refold ends at the first event after
//   which the new journey equals the stored one.
//
// Old releases did not store the state that a phone reported, nor whether an event's time has a fraction of a second.
// Both can be derived: the state from the metadata, the fraction from the text of the time.
//
// A refold by new fold rules or by a correction of settings reads the events in batches. Before it reads a batch, it
// stores the values that the rows of the batch lack.

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
    /// The counts (tally) of an unfinished refold by new fold rules or by a correction of settings, with its driver and
    /// last refolded event.
    ///
    /// Only the tally of one refold is kept, and only in memory. It is lost after a restart, or after a refold of
    /// another driver. The counts of changed sessions then lack the sessions that earlier pieces of the refold found.
    private var tallySoFar: (driver: Int64, last: Int64, tally: RefoldTally)?
    /// A request to apply a correction of settings reports the counts of the pieces of the refold that it does itself.
    /// Other work, such as the driver's next event, may also do pieces. Their counts are kept here until the request's
    /// next part reports them.
    private var unreported: (correction: Int64, counts: RefoldCounts)?
    /// The claims for late events that services sent, by the row number of the event. A claim says against whose rate
    /// limit the event counts. The event's row says only that a service sent the event, but not which service.
    ///
    /// A claim is kept from the beginning to the end of the refold that its event caused. If the event's transaction is
    /// rolled back, the claim stays. It is replaced when another late event of a service gets the same row number.
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
        // Old releases did not store `second_place`. This statement sets it to the order of arrival. FoldWalk then
        // replaces it by the order of the fold.
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

    /// Keeps the counts of this piece of a refold in `unreported`, if the refold applies a correction of settings.
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

    /// Keeps the rate-limit claim of a service's late event, until the refold is complete.
    func keep(_ claim: AdmissionClaim, ofEvent event: Int64) { claims[event] = claim }

    /// Must be called after the commit of the transaction that completed the event's refold.
    func forgetClaim(ofEvent event: Int64) { claims[event] = nil }

    /// The work of one transaction.
    struct Piece {
        var counts = RefoldCounts()
        var rowCount = 0
        var isComplete = false
        /// The row number of the correction of settings that the refold applies; nil if there is none.
        var correction: Int64?
        /// How much the refold of a late event adds to the count of a rate limit. Nil while the refold is not complete,
        /// and for a refold that no rate limit counts.
        var charge: RefoldCharge?
    }

    /// The correction of settings that a refold applies, and the time of the driver's first event that the correction
    /// changes.
    struct Correction {
        var id: Int64
        var from: Moment
    }

    /// Refolds the next events. Stops after `rowsMax` events, but not before the end of the last event's millisecond.
    ///
    /// - Parameters:
    ///   - correction: the correction of settings with which a new refold begins. It is ignored if a refold is in
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

    /// Returns how much the completed refold of the late event `cause` adds to the count of a rate limit. If an earlier
    /// process began the refold of a service's event, the service is unknown. Returns nil then, and the driver's limit
    /// does not count the refold either.
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
        /// The event right before those to be refolded. If this is not the first piece of the refold, an earlier piece
        /// has refolded this event. Nil if the piece begins at the beginning of the fold.
        var last: FoldedEventRow?
        var time: Moment
        /// The late event that caused the refold; nil if new fold rules or a correction of settings caused it.
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
        // The refold starts over if its progress was stored by a release with other fold rules. Only the correction of
        // settings is taken from the stored progress.
        return Start(
            journey: try folding.journeyAtFloor(of: driver),
            time: driver.floor ?? Moment(millisecondsSinceEpoch: .min),
            correction: try correction(mark?.correction ?? new?.id))
    }

    /// Stores the values that old releases did not store. If `ids` has an event, it must have all events of the same
    /// millisecond, because `second_place` depends on their order.
    private func fillOldRows(_ ids: [Int64]) throws(SQLiteError) {
        let list = DriverEvents.list(ids)
        for statement in [findEvidence, findWholeSeconds] {
            try statement.run { (bindings) throws(SQLiteError) in try bindings.set(1, list) }
        }
    }

    /// Returns where the refold by a correction of settings begins: at the first corrected event. The events before
    /// that event stay unchanged.
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

/// How much the refold of a late event adds to the count of a rate limit. The late event itself is counted separately.
struct RefoldCharge {
    var claim: AdmissionClaim
    var rowCount: Int
    /// The row number of the late event if Refolding keeps the event's rate-limit claim; otherwise nil.
    var keptFor: Int64?

    init(_ claim: AdmissionClaim, rowCount: Int, keptFor: Int64? = nil) {
        self.claim = claim
        self.rowCount = rowCount
        self.keptFor = keptFor
    }
}
