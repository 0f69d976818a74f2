// Counts what a refold of one driver changes, in the same way as SQLite's store.

import Engine
import JourneyModel

struct RefoldTally {
    private var counts = RefoldCounts()
    private var old: [TextKey: SessionOutcome] = [:]
    private var new: [TextKey: SessionOutcome] = [:]

    /// Counts the differences between the events before and after the fold. Both lists must be in the order of the
    /// fold.
    mutating func note(_ stored: [FoldedEvent], _ folded: [FoldedEvent]) {
        let verdicts = Dictionary(stored.map { ($0.seq, $0.verdict) }) { first, _ in first }
        for event in stored { Self.note(event, in: &old) }
        for event in folded {
            if event.unsaved == nil {
                counts.countEvent(verdicts[event.seq] ?? event.verdict, event.verdict)
            } else {
                counts.expiries += 1
            }
            Self.note(event, in: &new)
        }
    }

    private static func note(_ event: FoldedEvent, in outcomes: inout [TextKey: SessionOutcome]) {
        if let session = event.after.sessionID { outcomes[TextKey(session)] = SessionOutcome(event.after) }
        if let closed = event.closedSessionID {
            outcomes[TextKey(closed)] = .over(event.after.sessionID == nil ? .reset : .superseded)
        }
    }

    /// - Parameters:
    ///   - stored, folded: the driver's journey before and after the refold.
    ///   - now: the time of the comparison. A session whose deadline has passed at this time counts as ended, even
    ///     without a stored expiry (the event of this deadline). If nil, a passed deadline without a stored expiry is
    ///     ignored.
    consuming func counts(stored: Journey, folded: Journey, now: Moment?) -> RefoldCounts {
        counts.countDriver(stored: stored, folded: folded, now: now)
        if let now {
            for (journey, isNew) in [(stored, false), (folded, true)] where journey.hasPassedDeadline(at: now) {
                guard let session = journey.sessionID else { continue }
                let outcome = SessionOutcome(journey.advanced(to: now))
                if isNew { new[TextKey(session)] = outcome } else { old[TextKey(session)] = outcome }
            }
        }
        counts.countSessions(old, new, id: \.text)
        return counts
    }
}
