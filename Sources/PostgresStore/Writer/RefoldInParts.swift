// Refolds a driver's events in parts. There are three reasons for such a refold:
//
// - This release has new rules.
// - A correction changes the settings.
// - A late event is followed by more events than a batch keeps in memory.
//
// Each part is read, folded and written before the following part is read. One transaction writes all parts, so no
// other transaction sees an unfinished refold.
//
// This file reads no clock and no database. BatchRun reads the parts and writes the results. A trial of a refold reads
// the parts, but writes nothing.

import Engine
import JourneyModel

struct RefoldInParts: Sendable {
    private enum Cause: Sendable {
        /// A late event is inserted. The refold ends where the new journey equals the stored one.
        case insertion(OrderedEvent, FoldedEvent.Unsaved)
        /// All events from the first part on are folded by the rules of this release. `change` changes their settings
        /// before the fold.
        case refold(change: SettingsChange?, now: Moment?)
    }

    /// Changes the settings of an event.
    typealias SettingsChange = @Sendable (_ event: inout FoldedEvent) -> Void

    private let cause: Cause
    /// The driver's row. It has its final values when the refold is complete.
    private(set) var row: StoredDriver
    /// The version that was read.
    let seen: Int64
    /// The driver's journey before the refold.
    private let stored: Journey
    /// The time from which the next part must be read; nil when the refold is complete.
    private(set) var next: Moment?
    /// The journey after the last folded event; nil before the first part.
    private var running: Journey?
    private var lastFolded: FoldedEvent?
    /// The number of the late event.
    private var newSeq: Int64 = 0
    /// The new events: the late event, and missing expiries (the events of passed deadlines).
    private(set) var added: [FoldedEvent] = []
    /// The verdict of the late event. Nil before the first part, and in a refold without a late event.
    private(set) var verdict: Verdict?
    /// The number of stored events that were folded again because of a late event.
    private(set) var refoldedCount = 0
    private var tally = RefoldTally()

    /// A refold because of a late event.
    ///
    /// - Parameter from: the time at which the first part begins, at or before the event's time.
    init(of row: StoredDriver, inserting event: OrderedEvent, _ unsaved: FoldedEvent.Unsaved, from: Moment) {
        cause = .insertion(event, unsaved)
        (self.row, seen, stored, next) = (row, row.version, row.journey, from)
    }

    /// A refold by the rules of this release. If an older release has folded the driver's events, all of them must be
    /// refolded. In this case, `from` must be the driver's floor or, without a floor, the earliest possible time.
    ///
    /// - Parameter now: see `RefoldRequest.now`.
    init(of row: StoredDriver, from: Moment, now: Moment?, change: SettingsChange? = nil) {
        cause = .refold(change: change, now: now)
        (self.row, seen, stored, next) = (row, row.version, row.journey, from)
    }

    var isInsertion: Bool {
        if case .insertion = cause { true } else { false }
    }

    /// The rows to write after a part.
    struct Changes: Sendable {
        /// Stored events whose verdict, journey, closed session or place in their second has changed.
        var refolded: [FoldedEvent] = []
        /// Stored events whose settings the correction has replaced.
        var corrected: [FoldedEvent] = []
    }

    /// Folds the part that begins at `next`.
    mutating func take(_ part: BatchReads.Tail) -> Changes {
        var tail = part.tail
        switch cause {
        case .insertion(let event, let unsaved): insert(event, unsaved, into: &tail, through: part.through)
        case .refold(let change, _): refold(&tail, change, through: part.through)
        }
        added += tail.events.filter { $0.unsaved != nil }
        lastFolded = tail.events.last ?? lastFolded
        // Only the last part ends with the driver's last event.
        if next == nil, part.through == nil, let head = lastFolded {
            (row.headSeq, row.headCorrectedAt) = (head.seq, head.event.occurredAt)
        }
        return Changes(
            refolded: tail.events.filter(\.isChanged), corrected: tail.events.filter(\.isCorrected))
    }

    /// Forgets the new events. A trial does not write them, so it calls this method after each part.
    mutating func forgetAdded() { added = [] }

    private mutating func insert(
        _ event: OrderedEvent, _ unsaved: FoldedEvent.Unsaved, into tail: inout JourneyTail, through: Moment?
    ) {
        let driver = row.driver
        let expiry: JourneyTail.MakeExpiry = { deadline, running, seq in
            FoldedEvent.expiry(deadline, of: running, driver: driver, because: unsaved, seq: seq)
        }
        let insertion: JourneyTail.Insertion
        if let running {
            insertion = tail.goOn(after: running, newSeq: newSeq, expirySeq: row.lastSeq + 1, expiry: expiry)
        } else {
            newSeq = row.lastSeq + 1
            row.lastSeq = newSeq
            insertion = tail.insertInPart(FoldedEvent(seq: newSeq, event: event, unsaved: unsaved), expiry: expiry)
            verdict = insertion.verdict
        }
        row.lastSeq += insertion.expiryCount
        refoldedCount += insertion.refoldedCount
        running = insertion.unfinished
        next = insertion.unfinished == nil ? nil : through?.advanced(byMilliseconds: 1)
        for move in insertion.moves {
            row.recent.note(move.journey, after: stored, seq: move.seq)
            row.journey = move.journey
        }
    }

    private mutating func refold(_ tail: inout JourneyTail, _ change: SettingsChange?, through: Moment?) {
        let (driver, read) = (row.driver, tail.events)
        if let change { tail.correct { event, _ in change(&event) } }
        tail = JourneyTail(start: running ?? tail.start, events: tail.events)
        row.lastSeq += tail.refold(newSeq: row.lastSeq + 1) { deadline, running, next, seq in
            FoldedEvent.expiry(deadline, of: running, driver: driver, before: next, seq: seq)
        }
        tally.note(read, tail.events)
        running = tail.journey
        next = through?.advanced(byMilliseconds: 1)
        guard next == nil else { return }
        row.journey = tail.journey
        row.rules = Fold.rulesVersion
        // The recent changes were computed by the old rules or settings.
        row.recent = RecentJourneyChanges()
    }

    /// What the refold changed. In a refold for a late event, all counts are 0.
    var counts: RefoldCounts {
        guard case .refold(_, let now) = cause else { return RefoldCounts() }
        return tally.counts(stored: stored, folded: row.journey, now: now)
    }
}
