// Refolds all events of one driver by the rules of this release, inside the writer's transaction. First it derives
// what the rules need from stored data of old events: the phone's reported state from the metadata, and which times
// have no fraction of a second from their text.

import Engine
import JourneyModel

final class Refolding {
    private let folding: EventFolding
    private let events: EventTable
    private let findEvidence: PreparedStatement
    private let findWholeSeconds: PreparedStatement

    init(_ folding: EventFolding, events: EventTable, on connection: OpaquePointer) throws(SQLiteError) {
        self.folding = folding
        self.events = events
        let states = JourneyState.allCases.map { "WHEN '\($0.rawValue)' THEN \($0.code)" }.joined(separator: " ")
        findEvidence = try PreparedStatement(
            """
            UPDATE event SET previous_state = CASE json_extract(metadata, '$.previous_state') \(states) END
            WHERE driver = ?1 AND previous_state IS NULL AND instr(metadata, '"previous_state"') > 0
            """, on: connection)
        // Initially in order of arrival; the walk changes it to the fold's order.
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

    func refold(_ driver: DriverRow) throws(SQLiteError) -> RefoldCounts {
        for statement in [findEvidence, findWholeSeconds] {
            try statement.run { (bindings) throws(SQLiteError) in try bindings.set(1, driver.id) }
        }
        var counts = RefoldCounts()
        counts.drivers = 1
        var expiries: [NewEventRow] = []
        var sessions = SessionComparison()
        var head: DriverRow.Head?
        var walk = FoldWalk(from: try folding.journeyAtFloor(of: driver))
        let visit = { (step: FoldWalk.Step) throws(SQLiteError) -> Bool in
            switch step {
            case .expiry(let deadline, let journey, let next):
                expiries.append(try self.folding.expiry(deadline, of: journey, before: next, driver: driver))
                sessions.note(expiry: deadline.name, of: journey)
            case .event(let folded):
                counts.count(folded)
                sessions.note(folded)
                if folded.isChanged { try self.events.update(folded) }
                head = DriverRow.Head(event: folded.row.id, correctedAt: folded.row.event.occurredAt)
            }
            return true
        }
        try events.forEach(of: driver.id, from: driver.floor ?? Moment(millisecondsSinceEpoch: .min)) {
            (row) throws(SQLiteError) in try walk.take(row, visit)
        }
        _ = try walk.finish(visit)
        for expiry in expiries { _ = try events.add(expiry) }
        counts.expiries = expiries.count
        counts.sessions = sessions.changes
        if walk.running.journey.state != driver.journey.journey.state { counts.movedDrivers = 1 }
        driver.replaceFold(head: head, journey: walk.running)
        return counts
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

/// The outcome of each session of a driver by the older rules and by the current ones: its state, or why it ended.
private struct SessionComparison {
    private enum SessionOutcome: Hashable {
        case inProgress(JourneyState)
        /// Nil: by an event that the older release did not keep the reason of.
        case over(Journey.Ending?)

        var text: String {
            switch self {
            case .inProgress(let state): state.rawValue
            case .over(let ending): ending?.rawValue ?? "ended"
            }
        }
    }

    /// By row number in `session`.
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

    /// Releases before the rules 2 stored no reason: the event that ended the session says it.
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

    /// How many sessions changed from what to what.
    var changes: [RefoldChange: Int] {
        var changes: [RefoldChange: Int] = [:]
        for session in Set(old.keys).union(new.keys) where old[session] != new[session] {
            let (before, after) = (old[session]?.text, new[session]?.text)
            changes[RefoldChange(from: before ?? "not activated", to: after ?? "not activated"), default: 0] += 1
        }
        return changes
    }
}
