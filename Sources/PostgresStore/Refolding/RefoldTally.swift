// Counts what a refold of one driver changes, as SQLite's store counts it.

import Engine
import JourneyModel

struct RefoldTally {
    /// The outcome of a session: its state, or why it ended.
    private enum SessionOutcome: Hashable {
        case inProgress(JourneyState)
        case over(Journey.Ending?)

        var text: String {
            switch self {
            case .inProgress(let state): state.rawValue
            case .over(let ending): ending?.rawValue ?? "ended"
            }
        }

        init(_ journey: Journey) {
            self = journey.state == .sessionEnded ? .over(journey.endedBy) : .inProgress(journey.state)
        }
    }

    private var counts = RefoldCounts()
    private var old: [TextKey: SessionOutcome] = [:]
    private var new: [TextKey: SessionOutcome] = [:]

    /// Compares the driver's events before and after the refold, each in the order of the fold.
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
    ///   - now: see `RefoldRequest.now`.
    consuming func counts(stored: Journey, folded: Journey, now: Moment?) -> RefoldCounts {
        counts.drivers = 1
        if let now {
            for (journey, isNew) in [(stored, false), (folded, true)] where journey.hasPassedDeadline(at: now) {
                guard let session = journey.sessionID else { continue }
                let outcome = SessionOutcome(journey.advanced(to: now))
                if isNew { new[TextKey(session)] = outcome } else { old[TextKey(session)] = outcome }
            }
        }
        let sessions = Set(old.keys).union(new.keys)
        counts.sessionsFolded = sessions.count
        for session in sessions.sorted() where old[session] != new[session] {
            let (before, after) = (old[session]?.text, new[session]?.text)
            counts.add(
                RefoldChange(from: before ?? "not activated", to: after ?? "not activated"), sessionID: session.text)
        }
        let state = { (journey: Journey) in now.map { journey.advanced(to: $0).state } ?? journey.state }
        if state(stored) != state(folded) { counts.movedDrivers = 1 }
        return counts
    }
}
