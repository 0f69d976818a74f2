// Counts what a refold of one driver changes. The real refold and the dry run (`RefoldTrial`) share this code, so the
// dry run reports what the real refold changes.

import Engine
import JourneyModel

struct RefoldTally {
    /// The counts of events. `finish` adds the counts of drivers and sessions.
    private(set) var counts = RefoldCounts()
    private var sessions = SessionComparison()

    /// Returns and resets the counts. Keeps the outcomes of sessions, because they can only be compared after the last
    /// event.
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

    /// Adds the counts of drivers and sessions, which are known only after the last event. `stored` and `folded` are
    /// the driver's journey before and after the refold.
    ///
    /// - Parameter now: see `RefoldRequest.now`.
    mutating func finish(stored: StoredJourney, folded: StoredJourney, now: Moment?) {
        counts.countDriver(stored: stored.journey, folded: folded.journey, now: now)
        if let now { sessions.noteHeads(stored, folded, at: now) }
        sessions.count(into: &counts)
    }
}

/// The outcome of each session of a driver before the refold and after it. An outcome is the session's state, or why
/// the session ended.
private struct SessionComparison {
    /// The outcomes before the refold (`old`) and after it (`new`), by the session's row number.
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

    /// Records a session's outcome before the refold. Fold rules before version 2 did not store why a session ended.
    /// The reason is then derived from the event that ended the session.
    private mutating func noteOld(_ session: Int64, _ row: FoldedEventRow) {
        let journey = row.after.journey
        guard journey.state == .sessionEnded, journey.endedBy == nil else {
            old[session] = SessionOutcome(journey)
            return
        }
        if case .over? = old[session] { return }
        old[session] = .over(Self.ending(by: row.event.name))
    }

    /// Records the outcomes at the time `now`. If a session's deadline passed after the driver's last event, its
    /// outcome is the one that this deadline causes.
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

    func count(into counts: inout RefoldCounts) {
        counts.countSessions(old, new) { ids[$0] ?? "" }
    }
}
