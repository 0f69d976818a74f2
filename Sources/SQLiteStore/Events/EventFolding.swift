// Adds an event to the driver's fold. Updates the verdicts of later events and the driver's head. If the event shows
// that a deadline has passed, the same transaction stores the expiry for that deadline.
//
// If a late event changes more events than one transaction may refold, Refolding.swift continues the refold. This file
// reads no clock.
//
// Invariant: if a deadline passes between two consecutive stored events, its expiry is stored between them. This holds
// after every transaction, except for drivers whose refold is incomplete.

import Engine
import JourneyModel

final class EventFolding {
    private let events: EventTable
    private let internTables: InternTables
    private var headSeconds = HeadSeconds()

    init(events: EventTable, internTables: InternTables) {
        self.events = events
        self.internTables = internTables
    }

    /// Must be called after a rollback, and when other code has changed events.
    func forget() {
        headSeconds.forget()
        events.forget()
    }

    /// Must be called after other code has changed the driver's events.
    func forget(_ driver: DriverRow) { headSeconds.forget(driver) }

    struct Folded {
        var verdict: Verdict
        /// The number of stored events that were refolded. It is 0 if the new event is neither late nor in the head's
        /// second.
        var rowCount = 0
        /// The progress of the refold that the event began; nil if no refold is left to do. Until the refold is
        /// complete, the driver's journey and the remaining events' verdicts are out of date.
        var mark: RefoldMark?
    }

    /// Adds the event at its position in the order, and updates the driver's head. If the event comes after the head,
    /// the cost does not depend on the journey's length.
    ///
    /// The refold of a late event stops after `rowsMax` events, but never between two events with the same time.
    func fold(_ new: consuming NewEventRow, into driver: DriverRow, rowsMax: Int) throws(SQLiteError) -> Folded {
        if let floor = driver.floor, new.placed.occurredAt < floor {
            return Folded(verdict: try addBelowFloor(new, to: driver))
        }
        if new.placed.isWholeSecond, let second = headSeconds.take(of: driver, sharedBy: new.placed) {
            return try fold(new, into: second, of: driver)
        }
        guard let secondPlace = try placeAfterHead(new.placed, of: driver) else {
            headSeconds.forget(driver)
            return try foldLate(new, into: driver, rowsMax: rowsMax)
        }
        new.secondPlace = new.placed.isWholeSecond ? secondPlace : nil
        if let expiry = try expiry(before: new.placed, from: driver.journey, cause: new) {
            _ = try addAfterHead(expiry, to: driver)
        }
        return Folded(verdict: try addAfterHead(new, to: driver))
    }

    // MARK: The head's second

    /// Folds an event of the head's second. The stored events of this second are in memory. `foldLate` would read them
    /// from the database, with the same result.
    private func fold(
        _ new: consuming NewEventRow, into second: consuming HeadSecond, of driver: DriverRow
    ) throws(SQLiteError) -> Folded {
        var folded: Folded
        if second.count >= OrderWithinSecond.searchedMax {
            new.secondPlace = Int64(second.count)
            folded = Folded(verdict: try addAfterHead(new, to: driver))
            second.head = driver.head?.event ?? second.head
        } else {
            folded = try order(new, within: &second, of: driver)
        }
        second.count += 1
        headSeconds.store(second, of: driver)
        return folded
    }

    private func order(
        _ new: NewEventRow, within second: inout HeadSecond, of driver: DriverRow
    ) throws(SQLiteError) -> Folded {
        var new = new
        var rows: [FoldedEventRow] = []
        rows.reserveCapacity(second.rows.count + 1)
        var hasMetStoredJourney = false
        var walk = FoldWalk(from: second.before)
        let visit = { (step: FoldWalk.Step) throws(SQLiteError) -> Bool in
            // A step is never an expiry here, because no deadline lies between the journey `before` and this second.
            guard case .event(let folded) = step else { return true }
            if folded.row.id == FoldWalk.newEvent {
                new.take(folded)
            } else if folded.isChanged {
                try self.events.update(folded)
            }
            rows.append(FoldedEventRow(folded))
            hasMetStoredJourney = folded.meetsStoredJourney
            return true
        }
        let stored = second.rows
        if try walk.take(FoldedEventRow(new, secondPlace: nil), visit) {
            for row in stored { _ = try walk.take(row, visit) }
        }
        _ = try walk.finish(visit)
        let id = try events.add(new, to: driver)
        if let index = rows.firstIndex(where: { $0.id == FoldWalk.newEvent }) { rows[index].id = id }
        if let last = rows.last {
            second.head = last.id
            driver.head = DriverRow.Head(event: last.id, correctedAt: last.event.occurredAt)
        }
        if !hasMetStoredJourney { driver.move(to: walk.running, by: id) }
        second.rows = rows
        return Folded(verdict: new.verdict, rowCount: stored.count)
    }

    /// Stores an event from before the driver's floor, but does not fold it. The event's effect cannot be determined,
    /// because retention has deleted earlier events. Retention deletes this event later.
    private func addBelowFloor(_ new: NewEventRow, to driver: DriverRow) throws(SQLiteError) -> Verdict {
        _ = try events.add(new, to: driver)
        return new.verdict
    }

    /// Returns the event's index among the events of its second. Returns nil if the event comes before the head, or if
    /// it must be sorted among the events of its second.
    private func placeAfterHead(_ event: OrderedEvent, of driver: DriverRow) throws(SQLiteError) -> Int64? {
        guard let head = driver.head else { return 0 }
        if head.correctedAt != event.occurredAt { return head.correctedAt < event.occurredAt ? 0 : nil }
        guard let row = try events.event(head.event) else { throw .unreadable("head_event") }
        guard row.event.sharesSecond(with: event) else { return row.event < event ? 0 : nil }
        let next = (row.secondPlace ?? 0) + 1
        return next < OrderWithinSecond.searchedMax ? nil : next
    }

    private func addAfterHead(_ new: consuming NewEventRow, to driver: DriverRow) throws(SQLiteError) -> Verdict {
        // The first event of a second copies the journey before the second, because later events of the second need
        // it. Later events copy nothing.
        let before = new.secondPlace == 0 ? driver.journey : nil
        try new.apply(to: driver.journey)
        let id = try events.add(new, to: driver)
        driver.head = DriverRow.Head(event: id, correctedAt: new.placed.occurredAt)
        driver.move(to: new.after, by: id)
        let verdict = new.verdict
        if let before {
            let second = HeadSecond(before: before, rows: [FoldedEventRow(new, id: id)], count: 1, head: id)
            headSeconds.store(second, of: driver)
        }
        return verdict
    }

    /// Adds a late event. Folds it with the stored events of its second, and then folds later events. Stops when the
    /// journey equals the stored one, or when `rowsMax` events are refolded.
    private func foldLate(
        _ new: NewEventRow, into driver: DriverRow, rowsMax: Int
    ) throws(SQLiteError) -> Folded {
        var new = new
        let position = try events.position(of: new.placed, from: driver.chain.last, notBefore: driver.floor)
        let newRow = FoldedEventRow(new, secondPlace: position.secondPlace)
        var walk = FoldWalk(from: try journey(after: position, of: driver))
        // Expiry events are added after the walk, because a table must not grow while a statement reads it.
        var expiries: [NewEventRow] = []
        var last = newRow
        var containsHead = false
        var hasMetStoredJourney = false
        var rowCount = 0
        let visit = { (step: FoldWalk.Step) throws(SQLiteError) -> Bool in
            switch step {
            case .expiry(let deadline, let journey, _):
                expiries.append(try self.expiry(deadline, of: journey, cause: new))
            case .event(let folded):
                if folded.row.id == FoldWalk.newEvent {
                    new.take(folded)
                } else {
                    rowCount += 1
                    if folded.isChanged { try self.events.update(folded) }
                }
                last = folded.row
                if folded.row.id == driver.head?.event { containsHead = true }
                hasMetStoredJourney = folded.meetsStoredJourney
            }
            return !hasMetStoredJourney
        }
        var hasMore = false
        if try walk.take(newRow, visit) {
            let placed = new.placed
            hasMore = try walk.take(
                from: driver.chain.last, in: events, startingAt: placed.occurredAt, rowsMax: rowsMax,
                where: { row in
                    row.event.sharesSecond(with: placed) ? position.secondPlace == nil : placed < row.event
                }, visit)
        }
        let id = try events.add(new, to: driver)
        for expiry in expiries { _ = try events.add(expiry, to: driver) }
        let lastID = last.id == FoldWalk.newEvent ? id : last.id
        if containsHead { driver.head = DriverRow.Head(event: lastID, correctedAt: last.event.occurredAt) }
        var folded = Folded(verdict: new.verdict, rowCount: rowCount)
        if hasMore {
            folded.mark = RefoldMark(cause: id, last: lastID, rowCount: rowCount)
        } else if !hasMetStoredJourney {
            driver.move(to: walk.running, by: id)
        }
        return folded
    }

    private func journey(after position: EventTable.Position, of driver: DriverRow) throws(SQLiteError) -> StoredJourney
    {
        if let predecessor = position.predecessor { return predecessor.after }
        return try journeyAtFloor(of: driver)
    }

    /// Returns the journey with which the fold begins: the journey stored for the driver's floor, or IDLE if the driver
    /// has no floor.
    func journeyAtFloor(of driver: DriverRow) throws(SQLiteError) -> StoredJourney {
        guard driver.floor != nil else { return StoredJourney() }
        guard let base = try events.base(of: driver.id) else { throw .unreadable("journey_base") }
        return base
    }

    // MARK: Expiries

    /// If a deadline of the journey lies before `event`, returns the deadline's expiry, already folded; otherwise nil.
    /// The expiry gets the receive time and the settings of `cause`, the new event.
    private func expiry(
        before event: OrderedEvent, from running: StoredJourney, cause: NewEventRow
    ) throws(SQLiteError) -> NewEventRow? {
        // This check comes first, so that the journey is not copied needlessly.
        guard running.journey.hasDeadline(before: event) else { return nil }
        var journey = running.journey
        guard let deadline = journey.takeDeadline(before: event) else { return nil }
        return try expiry(deadline, of: running, cause: cause)
    }

    private func expiry(
        _ deadline: (name: EventName, at: Moment), of running: StoredJourney, cause: NewEventRow
    ) throws(SQLiteError) -> NewEventRow {
        let request = cause.append.request
        var expiry = try expiry(
            deadline, of: running, driver: cause.driver, request.driver, at: request.receivedAt,
            settings: request.settings, settingsVersion: cause.settingsVersion)
        try expiry.apply(to: running)
        return expiry
    }

    /// Returns the expiry, already folded, of a deadline between two refolded events. The expiry gets the receive time
    /// and the settings version of `next`.
    ///
    /// If a late event caused the refold, `next` is that event. Otherwise `next` is the first event after the deadline.
    func expiry(
        _ deadline: (name: EventName, at: Moment), of running: StoredJourney, before next: FoldedEventRow,
        driver: DriverRow
    ) throws(SQLiteError) -> NewEventRow {
        let settings = Settings()
        var expiry = try expiry(
            deadline, of: running, driver: driver.id, driver.driver, at: next.receivedAt,
            settings: VersionedSettings(settings: settings, version: settings.version),
            settingsVersion: next.settingsVersion)
        try expiry.apply(to: running)
        return expiry
    }

    /// Returns the event that the server stores when a deadline of the journey `running` passes.
    func expiry(
        _ deadline: (name: EventName, at: Moment), of running: StoredJourney, driver: Int64, _ driverID: DriverID,
        at now: Moment, settings: VersionedSettings, settingsVersion: Int64? = nil
    ) throws(SQLiteError) -> NewEventRow {
        let placed = OrderedEvent.expiry(deadline.name, at: deadline.at, sessionID: running.journey.sessionID)
        let submission = EventSubmission(expiry: placed)
        let request = AppendRequest(driver: driverID, submission: submission, receivedAt: now, settings: settings)
        let settingsRow =
            if let settingsVersion { settingsVersion } else { try internTables.settingsVersion(settings, at: now) }
        // A deadline is a time of the server's clock and needs no correction.
        let clock = ClockCorrection(
            occurredAt: deadline.at, sentAt: nil, receivedAt: max(now, deadline.at), memory: ClockMemory())
        return NewEventRow(
            driver: driver, append: PreparedAppend(request), placed: placed,
            kind: try internTables.kind(of: submission, origin: .server).id, session: running.session,
            charger: nil, merchant: nil, settingsVersion: settingsRow, clock: clock)
    }
}

extension NewEventRow {
    /// Folds this event: sets its verdict and the journey after it. `before` is the journey directly before this event.
    mutating func apply(to before: StoredJourney) throws(SQLiteError) {
        after = before
        verdict = after.journey.apply(placed)
        try after.findRows(from: before, session: session, charger: charger, of: placed)
        if before.journey.closing(by: after.journey) != nil { closedSession = before.session }
    }

    fileprivate mutating func take(_ folded: Refolded) {
        verdict = folded.verdict
        after = folded.after
        secondPlace = folded.secondPlace
        closedSession = folded.closedSession
    }
}

extension FoldedEventRow {
    fileprivate init(_ folded: Refolded) {
        self = folded.row
        verdict = folded.verdict
        after = folded.after
        secondPlace = folded.secondPlace
        closedSession = folded.closedSession
    }

    /// Creates the row of an event that was folded and then stored with the number `id`.
    fileprivate init(_ new: NewEventRow, id: Int64) {
        self.init(new, secondPlace: new.secondPlace)
        self.id = id
        verdict = new.verdict
        after = new.after
        closedSession = new.closedSession
    }

    /// Creates the row of an event that is not stored yet.
    fileprivate init(_ new: NewEventRow, secondPlace: Int64?) {
        self.init(
            id: FoldWalk.newEvent, event: new.placed, session: new.session, charger: new.charger, verdict: .none,
            after: StoredJourney(), secondPlace: secondPlace, closedSession: nil, settingsVersion: new.settingsVersion,
            foldSettings: nil, receivedAt: new.append.request.receivedAt)
    }
}

extension StoredJourney {
    /// Sets the row numbers of the sessions and chargers that the journey names. Must be called after `event` was
    /// applied to `before`.
    ///
    /// Takes each row number either from `before`, or from `session` or `charger`: the row numbers of the session and
    /// the charger that `event` names.
    mutating func findRows(
        from before: StoredJourney, session: Int64?, charger: Int64?, of event: OrderedEvent
    ) throws(SQLiteError) {
        self.session = try Self.row(of: journey.sessionID, before.named, before.named, (event.sessionID, session))
        let (target, next) = (before.target, before.nextTarget)
        targetCharger = try Self.row(of: journey.targetChargerID, target, next, (event.chargerID, charger))
        nextTargetCharger = try Self.row(of: journey.nextTargetChargerID, next, target, (event.chargerID, charger))
        let previous = (before.journey.previousSessionID, before.previousSession)
        previousSession = try Self.row(
            of: journey.previousSessionID, previous, before.named, (event.sessionID, session))
    }

    private typealias Named = (text: String?, row: Int64?)

    private var named: Named { (journey.sessionID, session) }
    private var target: Named { (journey.targetChargerID, targetCharger) }
    private var nextTarget: Named { (journey.nextTargetChargerID, nextTargetCharger) }

    private static func row(
        of text: String?, _ first: Named, _ second: Named, _ third: Named
    ) throws(SQLiteError) -> Int64? {
        guard let text else { return nil }
        if isNamed(text, first) { return first.row }
        if isNamed(text, second) { return second.row }
        if isNamed(text, third) { return third.row }
        throw .unreadable("a journey references ids that no event has")
    }

    private static func isNamed(_ text: String, _ named: Named) -> Bool {
        named.text.map { haveSameBytes(text, $0) } ?? false
    }
}
