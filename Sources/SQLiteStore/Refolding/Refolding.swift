// Refolds the events of one driver, in as many of the writer's transactions as needed. There are two causes: a late
// event that changes more events than one transaction may refold, or new rules in this release. The table `refold`
// holds the progress.
//
// A refold by new rules goes from the first event, or the floor, to the last event. Old events may lack two values that
// the rules need, so the refold first derives these values from the stored data. The state that the phone reported is
// derived from the metadata. Whether a time has a fraction of a second is derived from the text of the time. A refold
// after a late event ends where the journey equals the stored one.

import Engine
import JourneyModel
import RateLimiting

final class Refolding {
    private let folding: EventFolding
    private let events: EventTable
    private let table: RefoldTable
    private let findEvidence: PreparedStatement
    private let findWholeSeconds: PreparedStatement
    /// The outcomes of sessions in an unfinished refold by new rules, with the driver and the last refolded event. Nil
    /// unless this process has done all of that refold so far.
    private var sessionsSoFar: (driver: Int64, last: Int64, sessions: SessionComparison)?

    init(
        _ folding: EventFolding, events: EventTable, table: RefoldTable, on connection: OpaquePointer
    ) throws(SQLiteError) {
        self.folding = folding
        self.events = events
        self.table = table
        let states = JourneyState.allCases.map { "WHEN '\($0.rawValue)' THEN \($0.code)" }.joined(separator: " ")
        findEvidence = try PreparedStatement(
            """
            UPDATE event SET previous_state = CASE json_extract(metadata, '$.previous_state') \(states) END
            WHERE driver = ?1 AND previous_state IS NULL AND instr(metadata, '"previous_state"') > 0
            """, on: connection)
        // Sets `second_place` in the order of arrival. The walk then changes it to the order of the fold.
        findWholeSeconds = try PreparedStatement(
            """
            UPDATE event SET second_place = arrival.place
            FROM (SELECT event.id AS id,
                    row_number() OVER (PARTITION BY corrected_at_ms, sequence ORDER BY event.id) - 1 AS place
                FROM event CROSS JOIN event_kind ON event_kind.id = event.kind
                WHERE driver = ?1 AND origin = 0 AND instr(occurred_at, '.') = 0) AS arrival
            WHERE event.id = arrival.id AND event.second_place IS NULL
            """, on: connection)
    }

    /// The work of one transaction.
    struct Piece {
        var counts = RefoldCounts()
        var rowCount = 0
        var isComplete = false
        /// The charge for the refold after a late event; nil until the refold is complete.
        var charge: RefoldCharge?
    }

    /// Refolds the next events. Stops after `rowsMax` events, or at the end of the millisecond of the last one.
    func fold(_ driver: DriverRow, rowsMax: Int) throws(SQLiteError) -> Piece {
        let start = try start(of: driver)
        var piece = Piece()
        var expiries: [NewEventRow] = []
        var sessions = SessionComparison()
        if let so = sessionsSoFar, so.driver == driver.id, so.last == start.last?.id { sessions = so.sessions }
        var last = start.last
        var containsHead = false
        var hasMetStoredJourney = false
        var walk = FoldWalk(from: start.journey)
        let visit = { (step: FoldWalk.Step) throws(SQLiteError) -> Bool in
            switch step {
            case .expiry(let deadline, let journey, let next):
                expiries.append(
                    try self.folding.expiry(deadline, of: journey, before: start.cause ?? next, driver: driver))
                if start.cause == nil { sessions.note(expiry: deadline.name, of: journey) }
            case .event(let folded):
                piece.rowCount += 1
                if start.cause == nil {
                    piece.counts.count(folded)
                    sessions.note(folded)
                }
                if folded.isChanged { try self.events.update(folded) }
                last = folded.row
                if folded.row.id == driver.head?.event { containsHead = true }
                hasMetStoredJourney = start.cause != nil && folded.meetsStoredJourney
            }
            return !hasMetStoredJourney
        }
        let hasMore = try walk.take(of: driver.id, in: events, from: start.time, rowsMax: rowsMax, visit)
        for expiry in expiries { _ = try events.add(expiry) }
        if start.cause == nil { piece.counts.expiries = expiries.count }

        let head = last.map { DriverRow.Head(event: $0.id, correctedAt: $0.event.occurredAt) }
        if start.cause != nil, containsHead { driver.head = head }
        let rowCount = start.rowCount + piece.rowCount
        if hasMore, let last {
            let mark = RefoldMark(cause: start.cause?.id, last: last.id, rowCount: rowCount)
            try table.write(mark, of: driver.id)
            driver.beginRefold()
            sessionsSoFar = start.cause == nil ? (driver.id, last.id, sessions) : nil
            return piece
        }
        piece.isComplete = true
        if let cause = start.cause {
            if !hasMetStoredJourney { driver.move(to: walk.running, by: cause.id) }
            piece.charge = RefoldCharge(
                AdmissionClaim(
                    driver: driver.driver, hasSession: cause.event.sessionID != nil,
                    idempotencyKey: cause.event.idempotencyKey), rowCount: rowCount)
        } else {
            piece.counts.drivers = 1
            piece.counts.sessions = sessions.changes
            sessionsSoFar = nil
            if walk.running.journey.state != driver.journey.journey.state { piece.counts.movedDrivers = 1 }
            driver.replaceFold(head: head, journey: walk.running)
        }
        try table.remove(driver.id)
        driver.completeRefold()
        return piece
    }

    /// The position at which the next piece begins.
    private struct Start {
        var journey: StoredJourney
        /// The last refolded event; nil before the first piece.
        var last: FoldedEventRow?
        var time: Moment
        /// The late event that caused the refold; nil if new rules caused it.
        var cause: FoldedEventRow?
        var rowCount = 0
    }

    private func start(of driver: DriverRow) throws(SQLiteError) -> Start {
        // A mark written under other rules is ignored, and the refold starts over.
        if driver.isRefolding, let mark = try table.mark(of: driver.id), mark.rules == Fold.rulesVersion {
            guard let last = try events.event(mark.last) else { throw .unreadable("refold") }
            var start = Start(
                journey: last.after, last: last, time: last.event.occurredAt.advanced(byMilliseconds: 1),
                rowCount: mark.rowCount)
            if let cause = mark.cause {
                start.cause = try events.event(cause)
                if start.cause == nil { throw .unreadable("refold") }
            }
            return start
        }
        for statement in [findEvidence, findWholeSeconds] {
            try statement.run { (bindings) throws(SQLiteError) in try bindings.set(1, driver.id) }
        }
        return Start(
            journey: try folding.journeyAtFloor(of: driver),
            time: driver.floor ?? Moment(millisecondsSinceEpoch: .min))
    }
}

/// The charge to the rate limiter for the refold of a late event, in addition to the ordinary charge for the event.
struct RefoldCharge {
    var claim: AdmissionClaim
    var rowCount: Int

    init(_ claim: AdmissionClaim, rowCount: Int) {
        self.claim = claim
        self.rowCount = rowCount
    }
}

extension RefoldCounts {
    fileprivate mutating func count(_ folded: Refolded) {
        events += 1
        if folded.verdict != folded.row.verdict {
            verdicts[RefoldChange(from: Self.text(folded.row.verdict), to: Self.text(folded.verdict)), default: 0] += 1
        }
    }

    private static func text(_ verdict: Verdict) -> String {
        verdict.transition.rawValue + (verdict.reason.map { " " + $0.rawValue } ?? "")
            + (verdict.implied.isEmpty ? "" : ", implied " + verdict.implied.names.joined(separator: " "))
    }
}

/// The outcome of each session of a driver by the older rules and by the current ones. An outcome is the session's
/// state, or why the session ended.
private struct SessionComparison {
    private enum SessionOutcome: Hashable {
        case inProgress(JourneyState)
        /// The associated value is nil if the older release did not store why the session ended.
        case over(Journey.Ending?)

        var text: String {
            switch self {
            case .inProgress(let state): state.rawValue
            case .over(let ending): ending?.rawValue ?? "ended"
            }
        }
    }

    /// The outcomes by the older rules (`old`) and by the current ones (`new`), by row number in `session`.
    private var old: [Int64: SessionOutcome] = [:]
    private var new: [Int64: SessionOutcome] = [:]

    mutating func note(expiry name: EventName, of journey: StoredJourney) {
        if let session = journey.session { new[session] = .over(Self.ending(by: name)) }
    }

    mutating func note(_ folded: Refolded) {
        if let session = folded.row.after.session { noteOld(session, folded.row) }
        if let session = folded.after.session { new[session] = Self.outcome(of: folded.after.journey) }
        if let closed = folded.closedSession {
            new[closed] = .over(folded.after.session == nil ? .reset : .superseded)
        }
    }

    /// Records a session's outcome by the older rules. Rules before version 2 did not store why a session ended. In
    /// that case, the reason is derived from the event that ended the session.
    private mutating func noteOld(_ session: Int64, _ row: FoldedEventRow) {
        if case .over? = old[session] { return }
        let journey = row.after.journey
        old[session] =
            journey.state == .sessionEnded
            ? .over(journey.endedBy ?? Self.ending(by: row.event.name)) : .inProgress(journey.state)
    }

    private static func outcome(of journey: Journey) -> SessionOutcome {
        journey.state == .sessionEnded ? .over(journey.endedBy) : .inProgress(journey.state)
    }

    private static func ending(by name: EventName) -> Journey.Ending? {
        switch name {
        case .visitVerifiedByWeb: .verified
        case .gracePeriodExpired: .grace
        case .hardTimeoutExpired: .hardTimeout
        case .webRequestedEnd: .requested
        default: nil
        }
    }

    /// The number of sessions for each pair of old and new outcome, where the two outcomes differ.
    var changes: [RefoldChange: Int] {
        var changes: [RefoldChange: Int] = [:]
        for session in Set(old.keys).union(new.keys) where old[session] != new[session] {
            let (before, after) = (old[session]?.text, new[session]?.text)
            changes[RefoldChange(from: before ?? "not activated", to: after ?? "not activated"), default: 0] += 1
        }
        return changes
    }
}
