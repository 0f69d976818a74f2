// Counts what a refold of one driver changes. The real refold and the trial that only reads (`RefoldTrial`) both count
// with this type. A dry run therefore reports what the real run then changes.

import Engine
import JourneyModel

struct RefoldTally {
    /// The counts of events so far. `finish` adds the counts of drivers and sessions.
    private(set) var counts = RefoldCounts()
    private var sessions = SessionComparison()

    /// Returns the counts since the last call of this function, and resets them. The outcomes of sessions are kept,
    /// because they can only be compared after the last event.
    mutating func takeCounts() -> RefoldCounts {
        defer { counts = RefoldCounts() }
        return counts
    }

    mutating func note(_ folded: Refolded) {
        counts.countEvent(folded.row.verdict, folded.verdict)
        sessions.note(folded)
    }

    /// Counts an expiry event that is not stored yet.
    mutating func note(expiry name: EventName, of journey: StoredJourney) {
        counts.expiries += 1
        sessions.note(expiry: name, of: journey)
    }

    /// Adds the counts that are known only after the last event: those of the driver and of its sessions. `stored` and
    /// `folded` are the driver's journey before and after the refold.
    ///
    /// - Parameter now: see `RefoldRequest.now`.
    mutating func finish(stored: StoredJourney, folded: StoredJourney, now: Moment?) {
        counts.countDriver(stored: stored.journey, folded: folded.journey, now: now)
        if let now { sessions.noteHeads(stored, folded, at: now) }
        sessions.count(into: &counts)
    }
}

/// The outcome of each session of a driver, according to the stored verdicts (results of the fold) and according to the
/// new ones. An outcome is the session's state, or why the session ended.
private struct SessionComparison {
    /// The sessions' outcomes according to the stored verdicts of the fold (`old`) and the new verdicts (`new`). The
    /// keys are row numbers in `session`.
    private var old: [Int64: SessionOutcome] = [:]
    private var new: [Int64: SessionOutcome] = [:]
    /// The ids of the sessions.
    private var ids: [Int64: String] = [:]

    mutating func note(expiry name: EventName, of journey: StoredJourney) {
        if let session = journey.session { new[session] = .over(Self.ending(by: name)) }
        remember(journey)
    }

    mutating func note(_ folded: Refolded) {
        remember(folded.row.after)
        remember(folded.after)
        if let session = folded.row.after.session { noteOld(session, folded.row) }
        if let closed = folded.row.closedSession {
            old[closed] = .over(folded.row.after.session == nil ? .reset : .superseded)
        }
        if let session = folded.after.session { new[session] = SessionOutcome(folded.after.journey) }
        if let closed = folded.closedSession {
            new[closed] = .over(folded.after.session == nil ? .reset : .superseded)
        }
    }

    /// Records a session's outcome according to the stored verdicts. Releases with fold rules before version 2 did not
    /// store why a session ended. For their events, the reason is derived from the first event after which the session
    /// is over.
    private mutating func noteOld(_ session: Int64, _ row: FoldedEventRow) {
        let journey = row.after.journey
        guard journey.state == .sessionEnded, journey.endedBy == nil else {
            old[session] = SessionOutcome(journey)
            return
        }
        if case .over? = old[session] { return }
        old[session] = .over(Self.ending(by: row.event.name))
    }

    /// Records the outcomes as they are at the time `now`. If a deadline passed between the last event and `now`, the
    /// session's outcome is the one that this deadline causes.
    mutating func noteHeads(_ stored: StoredJourney, _ folded: StoredJourney, at now: Moment) {
        remember(stored)
        remember(folded)
        if let session = stored.session, stored.journey.hasPassedDeadline(at: now) {
            old[session] = SessionOutcome(stored.journey.advanced(to: now))
        }
        if let session = folded.session, folded.journey.hasPassedDeadline(at: now) {
            new[session] = SessionOutcome(folded.journey.advanced(to: now))
        }
    }

    private mutating func remember(_ journey: StoredJourney) {
        if let session = journey.session, let id = journey.journey.sessionID { ids[session] = id }
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

    /// Adds to `counts` the number of sessions, and the number of sessions whose old and new outcome differ.
    func count(into counts: inout RefoldCounts) {
        counts.countSessions(old, new) { ids[$0] ?? "" }
    }
}
