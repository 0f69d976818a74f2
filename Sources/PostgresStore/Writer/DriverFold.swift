// One driver during a batch: the row that was read, and in memory the changes by the batch's events.

import Engine
import JourneyModel

struct DriverFold {
    private(set) var row: StoredDriver
    /// The version that was read; 0 for a new driver.
    let seen: Int64
    private(set) var tail: JourneyTail
    /// Events below the floor, which have no effect.
    private(set) var belowFloor: [FoldedEvent] = []
    /// The time of the driver's last stored event.
    private let storedHeadAt: Moment?
    /// The time span, both ends included, whose stored events are all in `tail`. If `through` is nil, the span has no
    /// end. The property itself is nil if no stored events were read.
    private var read: (from: Moment, through: Moment?)?
    /// The sessions that the batch opened or registered.
    private(set) var sessions: [TextKey: SessionRow] = [:]
    private(set) var isChanged = false

    init(_ row: StoredDriver, tail read: BatchReads.Tail?) {
        self.row = row
        seen = row.version
        storedHeadAt = row.headCorrectedAt
        self.read = read.map { ($0.from, $0.through) }
        tail = read?.tail ?? JourneyTail(start: row.journey)
    }

    /// The journey after the last event.
    var journey: Journey { tail.journey }

    /// The time of the last event in the order.
    var headAt: Moment? { tail.end == nil ? tail.events.last?.event.occurredAt ?? storedHeadAt : storedHeadAt }

    func isBelowFloor(_ time: Moment) -> Bool { row.floor.map { time < $0 } ?? false }

    /// Returns whether the place of an event at `time` is in `tail` or at its end. Even then, `add` may need more
    /// stored events.
    func isReady(for time: Moment) -> Bool {
        if isBelowFloor(time) { return true }
        if let through = read?.through, time > through { return false }
        guard let storedHeadAt, time <= storedHeadAt else { return read?.through == nil }
        return read.map { time >= $0.from } ?? false
    }

    /// Forgets the stored events that were read. Without them, only events after the driver's last event can be added.
    /// Must be called before any change.
    mutating func forgetTail() {
        tail = JourneyTail(start: row.journey)
        read = nil
    }

    mutating func remember(_ memory: ClockMemory) { row.clockMemory = memory }

    /// Adds an event at its place. Returns the event's verdict, and how many stored events were folded again. If more
    /// stored events must be read first, changes nothing and returns nil.
    mutating func add(
        _ placed: OrderedEvent, _ unsaved: FoldedEvent.Unsaved
    ) -> (verdict: Verdict, refoldedCount: Int)? {
        let new = FoldedEvent(seq: row.lastSeq + 1, event: placed, unsaved: unsaved)
        if isBelowFloor(placed.occurredAt) {
            isChanged = true
            row.lastSeq += 1
            belowFloor.append(new)
            return (.none, 0)
        }
        var before = journey
        let (request, driver) = (unsaved.append.request, row.driver)
        let insertion = tail.insert(new) { deadline, running, seq in
            var expiry = FoldedEvent.expiry(
                deadline, of: running, driver: driver, at: request.receivedAt, settings: request.settings,
                settingsVersion: unsaved.settingsVersion)
            expiry.seq = seq
            expiry.apply(to: running)
            return expiry
        }
        guard let insertion else { return nil }
        isChanged = true
        row.lastSeq += 1 + insertion.expiryCount
        for move in insertion.moves {
            row.recent.note(move.journey, after: before, seq: move.seq)
            before = move.journey
        }
        return (insertion.verdict, insertion.refoldedCount)
    }

    /// Folds the events in `tail` again, by the rules of this release. If an older release has folded the driver's
    /// events, `tail` must contain all of them.
    ///
    /// - Parameters:
    ///   - now: see `RefoldRequest.now`.
    ///   - correct: changes the settings of the events first. Gets each event with the stored journey before it.
    mutating func refold(
        at now: Moment?, correct: ((inout FoldedEvent, _ before: Journey) -> Void)? = nil
    ) -> RefoldCounts {
        isChanged = true
        let stored = tail.events
        if let correct { tail.correct(correct) }
        let before = (journey: journey, driver: row.driver)
        let expiryCount = tail.refold(newSeq: row.lastSeq + 1) { deadline, running, next, seq in
            let version = next.settingsVersion ?? Settings().version
            let settings = Settings(
                gracePeriodSeconds: next.event.gracePeriodSeconds, hardTimeoutSeconds: next.event.hardTimeoutSeconds)
            // `at` is the time at which the server would have stored the expiry.
            var expiry = FoldedEvent.expiry(
                deadline, of: running, driver: before.driver, at: deadline.at,
                settings: VersionedSettings(settings: settings, version: version), settingsVersion: version)
            expiry.seq = seq
            expiry.apply(to: running)
            return expiry
        }
        row.lastSeq += expiryCount
        row.rules = Fold.rulesVersion
        // The recent changes come from the old rules or settings, so they are dropped.
        row.recent = RecentJourneyChanges()
        var tally = RefoldTally()
        tally.note(stored, tail.events)
        return tally.counts(stored: before.journey, folded: journey, now: now)
    }

    /// Adds the expiry of a deadline that has passed. If more stored events must be read first, changes nothing and
    /// returns false.
    mutating func add(_ expiry: FoldedEvent) -> Bool {
        expiry.unsaved.flatMap { add(expiry.event, $0) } != nil
    }

    mutating func write(_ session: SessionRow) {
        isChanged = true
        sessions[TextKey(session.sessionID)] = session
    }

    /// Returns the event that this batch has added under the key.
    func added(underKey key: String) -> FoldedEvent? {
        if let event = tail.event(underKey: key) { return event.unsaved == nil ? nil : event }
        return belowFloor.last { haveSameBytes($0.event.idempotencyKey, key) }
    }

    /// Returns the number of events with the corrected time `time`, counting at most `max`.
    func count(at time: Moment, max: Int) -> Int {
        var count = 0
        for event in tail.events.reversed() where event.event.occurredAt <= time {
            guard event.event.occurredAt == time, count < max else { break }
            count += 1
        }
        return count
    }

    /// The row to write.
    var moved: MovedDriver {
        var moved = row
        moved.journey = tail.journey
        if tail.end == nil, let last = tail.events.last {
            moved.headSeq = last.seq
            moved.headCorrectedAt = last.event.occurredAt
        }
        return MovedDriver(row: moved, seen: seen)
    }
}

extension FoldedEvent {
    /// Returns the event that the server stores when a deadline of the journey `running` passes. Its `seq`, its verdict
    /// and the journey after it are still missing.
    static func expiry(
        _ deadline: (name: EventName, at: Moment), of running: Journey, driver: DriverID, at now: Moment,
        settings: VersionedSettings, settingsVersion: String
    ) -> FoldedEvent {
        let placed = OrderedEvent.expiry(deadline.name, at: deadline.at, sessionID: running.sessionID)
        let request = AppendRequest(
            driver: driver, submission: EventSubmission(expiry: placed), receivedAt: now, settings: settings)
        // A deadline is a time of the server's clock and needs no correction.
        let clock = ClockCorrection(
            occurredAt: deadline.at, sentAt: nil, receivedAt: max(now, deadline.at), memory: ClockMemory())
        return FoldedEvent(
            seq: 0, event: placed,
            unsaved: Unsaved(append: PreparedAppend(request), clock: clock, settingsVersion: settingsVersion))
    }
}
