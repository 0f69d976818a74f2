// One driver during a batch: the driver's row, and the changes that the batch makes in memory.

import Engine
import JourneyModel

struct DriverFold {
    private(set) var row: StoredDriver
    /// The version that was read; 0 for a new driver.
    let seen: Int64
    private(set) var tail: JourneyTail
    /// New events below the driver's floor (the time at which the fold begins). They have no effect.
    private(set) var belowFloor: [FoldedEvent] = []
    /// The events that a refold in parts has added.
    private var addedByRefold: [FoldedEvent] = []
    /// The corrected time of the driver's head, which is the last stored event in the fold's order.
    private let storedHeadAt: Moment?
    /// The time span of the stored events in `tail`, both ends included. If `through` is nil, `tail` contains all
    /// events from `from` on. The property is nil if no stored events were read.
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

    /// Creates the fold after a refold. No more events can be added to it.
    init(after refold: RefoldInParts) {
        row = refold.row
        seen = refold.seen
        storedHeadAt = refold.row.headCorrectedAt
        tail = JourneyTail(start: refold.row.journey)
        addedByRefold = refold.added
        isChanged = true
    }

    /// The journey after the last event.
    var journey: Journey { tail.journey }

    /// The time of the last event in the order.
    var headAt: Moment? { tail.end == nil ? tail.events.last?.event.occurredAt ?? storedHeadAt : storedHeadAt }

    func isBelowFloor(_ time: Moment) -> Bool { row.floor.map { time < $0 } ?? false }

    /// Returns whether the place of an event at `time` is known: below the floor, in `tail`, or at the end of `tail`.
    /// Even if the place is known, `add` may need more stored events.
    func isReady(for time: Moment) -> Bool {
        if isBelowFloor(time) { return true }
        if let through = read?.through, time > through { return false }
        guard let storedHeadAt, time <= storedHeadAt else { return read?.through == nil }
        return read.map { time >= $0.from } ?? false
    }

    /// Forgets the stored events that were read. From now on, only events after the driver's last event can be added.
    /// Must be called before any change.
    mutating func forgetTail() {
        tail = JourneyTail(start: row.journey)
        read = nil
    }

    mutating func remember(_ memory: ClockMemory) { row.clockMemory = memory }

    /// Adds an event at its place in the order. Returns the event's verdict, and the number of stored events that were
    /// folded again. Returns nil and changes nothing if more stored events must be read first.
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
        let driver = row.driver
        let insertion = tail.insert(new) { deadline, running, seq in
            FoldedEvent.expiry(deadline, of: running, driver: driver, because: unsaved, seq: seq)
        }
        guard let insertion else { return nil }
        isChanged = true
        if row.needsRefold { row.rules = StoredDriver.mixedRules }
        row.lastSeq += 1 + insertion.expiryCount
        for move in insertion.moves {
            row.recent.note(move.journey, after: before, seq: move.seq)
            before = move.journey
        }
        return (insertion.verdict, insertion.refoldedCount)
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

    /// The events to insert, in the order of arrival. The feed delivers them in the order of the inserts.
    var added: [FoldedEvent] {
        (belowFloor + addedByRefold + tail.events.filter { $0.unsaved != nil }).sorted { $0.seq < $1.seq }
    }

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
    /// Returns the expiry (the event of a passed deadline), with its verdict and the journey after it. The deadline
    /// passes before the new event `unsaved`, or before a later event that is folded again.
    static func expiry(
        _ deadline: (name: EventName, at: Moment), of running: Journey, driver: DriverID, because unsaved: Unsaved,
        seq: Int64
    ) -> FoldedEvent {
        let request = unsaved.append.request
        var expiry = expiry(
            deadline, of: running, driver: driver, at: request.receivedAt, settings: request.settings,
            settingsVersion: unsaved.settingsVersion)
        expiry.seq = seq
        expiry.apply(to: running)
        return expiry
    }

    /// Returns the expiry (the event of a passed deadline), with its verdict and the journey after it. The deadline
    /// passes before the stored event `next`.
    static func expiry(
        _ deadline: (name: EventName, at: Moment), of running: Journey, driver: DriverID, before next: FoldedEvent,
        seq: Int64
    ) -> FoldedEvent {
        let version = next.settingsVersion ?? Settings().version
        let settings = Settings(
            gracePeriodSeconds: next.event.gracePeriodSeconds, hardTimeoutSeconds: next.event.hardTimeoutSeconds)
        // `at` is the time at which the server would have stored the expiry.
        var expiry = expiry(
            deadline, of: running, driver: driver, at: deadline.at,
            settings: VersionedSettings(settings: settings, version: version), settingsVersion: version)
        expiry.seq = seq
        expiry.apply(to: running)
        return expiry
    }

    /// Returns the expiry (the event of a passed deadline) of the journey `running`. Its `seq`, its verdict and the
    /// journey after it are still missing.
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
