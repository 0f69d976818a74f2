// The fold in the database: an event is added at its place in the contract's order, and all that it changes is brought
// up to date in the same transaction: the verdicts after it, the driver's head, and the expiries of deadlines that it
// made pass. It asks no clock.
//
// One thing holds after every transaction: between a stored event and the next in the order no deadline passes, since
// its expiry would be stored there. So a deadline that passes anew finds no expiry of its own on its way.

import Engine
import JourneyModel

final class EventFolding {
    private let events: EventTable
    private let dictionaries: Dictionaries

    init(events: EventTable, dictionaries: Dictionaries) {
        self.events = events
        self.dictionaries = dictionaries
    }

    /// Adds the event at its place and brings the driver's head up to date. An event after the head costs the same
    /// however long the journey is.
    func fold(_ new: NewEventRow, into driver: DriverRow) throws(SQLiteError) -> Verdict {
        if let floor = driver.floor, new.placed.occurredAt < floor { return try addBelowFloor(new) }
        guard try comesAfterHead(new.placed, of: driver) else { return try foldLate(new, into: driver) }
        if let expiry = try expiry(before: new.placed, from: driver.journey, cause: new) {
            _ = try addAfterHead(expiry, to: driver)
        }
        return try addAfterHead(new, to: driver)
    }

    /// What came before its place is deleted, so nobody can tell what it would have moved: it is kept, with no effect,
    /// until retention takes it too.
    private func addBelowFloor(_ new: NewEventRow) throws(SQLiteError) -> Verdict {
        _ = try events.add(new)
        return new.verdict
    }

    private func comesAfterHead(_ event: PlacedEvent, of driver: DriverRow) throws(SQLiteError) -> Bool {
        guard let head = driver.head else { return true }
        if head.correctedAt != event.occurredAt { return head.correctedAt < event.occurredAt }
        guard let row = try events.event(head.event) else { throw .unreadable("head_event") }
        return row.event < event
    }

    private func addAfterHead(_ new: NewEventRow, to driver: DriverRow) throws(SQLiteError) -> Verdict {
        var new = new
        try new.apply(to: driver.journey)
        let id = try events.add(new)
        driver.head = DriverRow.Head(event: id, correctedAt: new.placed.occurredAt)
        driver.move(to: new.after, by: id)
        return new.verdict
    }

    /// From the last point before the event, over it, and on until the journey is the one that was stored there:
    /// from then on nothing changes, because a verdict depends on nothing but the journey before and the event.
    private func foldLate(_ new: NewEventRow, into driver: DriverRow) throws(SQLiteError) -> Verdict {
        var new = new
        let before = try journey(before: new.placed, of: driver)
        try new.apply(to: before)
        let id = try events.add(new)
        if new.after.journey == before.journey { return new.verdict }

        var running = new.after
        var metStoredJourney = false
        // Added after the loop: a table does not grow under a statement that reads it.
        var expiries: [NewEventRow] = []
        try events.forEachSuccessor(of: new.placed, of: driver.id) { (successor) throws(SQLiteError) in
            if let expiry = try expiry(before: successor.event, from: running, cause: new) {
                expiries.append(expiry)
                running = expiry.after
            }
            let before = running
            let verdict = running.journey.apply(successor.event)
            try running.findRows(
                from: before, session: successor.session, charger: successor.charger, of: successor.event)
            metStoredJourney = running.journey == successor.after.journey
            if !metStoredJourney || verdict != successor.verdict {
                try events.update(successor.id, verdict: verdict, after: running)
            }
            return !metStoredJourney
        }
        for expiry in expiries { _ = try events.add(expiry) }
        if !metStoredJourney { driver.move(to: running, by: id) }
        return new.verdict
    }

    /// Never read from below the floor.
    private func journey(before event: PlacedEvent, of driver: DriverRow) throws(SQLiteError) -> StoredJourney {
        if let before = try events.predecessor(of: event, of: driver.id, notBefore: driver.floor) {
            return before.after
        }
        guard driver.floor != nil else { return StoredJourney() }
        guard let base = try events.base(of: driver.id) else { throw .unreadable("journey_base") }
        return base
    }

    // MARK: Expiries

    /// The expiry of the deadline that lies before `event`, applied; nil when none does. Stored at the same time and
    /// with the same settings as its cause.
    private func expiry(
        before event: PlacedEvent, from running: StoredJourney, cause: NewEventRow
    ) throws(SQLiteError) -> NewEventRow? {
        var journey = running.journey
        guard let deadline = journey.takeDeadline(before: event) else { return nil }
        let request = cause.append.request
        var expiry = try expiry(
            deadline, of: running, driver: cause.driver, request.driver, at: request.receivedAt,
            settings: request.settings, settingsVersion: cause.settingsVersion)
        try expiry.apply(to: running)
        return expiry
    }

    /// The event that the server stores when a deadline of that journey passes.
    func expiry(
        _ deadline: (name: EventName, at: Moment), of running: StoredJourney, driver: Int64, _ driverID: DriverID,
        at now: Moment, settings: VersionedSettings, settingsVersion: Int64? = nil
    ) throws(SQLiteError) -> NewEventRow {
        let placed = PlacedEvent.expiry(deadline.name, at: deadline.at, sessionID: running.journey.sessionID)
        let submission = EventSubmission(expiry: placed)
        let request = AppendRequest(driver: driverID, submission: submission, receivedAt: now, settings: settings)
        let settingsRow =
            if let settingsVersion { settingsVersion } else { try dictionaries.settingsVersion(settings, at: now) }
        // A deadline is in nobody's clock but the server's: nothing to correct.
        let clock = ClockCorrection(
            occurredAt: deadline.at, sentAt: nil, receivedAt: max(now, deadline.at), memory: ClockMemory())
        return NewEventRow(
            driver: driver, append: PreparedAppend(request), placed: placed,
            kind: try dictionaries.kind(of: submission, origin: .server), session: running.session,
            charger: nil, merchant: nil, settingsVersion: settingsRow, clock: clock)
    }
}

extension EventSubmission {
    fileprivate init(expiry: PlacedEvent) {
        self.init(
            name: expiry.name, spelling: expiry.name.canonical, eventID: expiry.eventID,
            idempotencyKey: expiry.idempotencyKey, sessionID: expiry.sessionID, occurredAt: expiry.occurredAt,
            occurredAtText: RFC3339.text(of: expiry.occurredAt), source: "server",
            canonicalForm: Array(expiry.idempotencyKey.utf8))
    }
}

extension NewEventRow {
    /// Fills in the verdict and the journey after this event, which comes right after `before`.
    fileprivate mutating func apply(to before: StoredJourney) throws(SQLiteError) {
        after = before
        verdict = after.journey.apply(placed)
        try after.findRows(from: before, session: session, charger: charger, of: placed)
    }
}

extension StoredJourney {
    /// After `event` was applied to `before`: the row numbers of what the journey names now. All that it can name
    /// was named by `before` or by the event.
    mutating func findRows(
        from before: StoredJourney, session: Int64?, charger: Int64?, of event: PlacedEvent
    ) throws(SQLiteError) {
        self.session = try Self.row(of: journey.sessionID, before.named, before.named, (event.sessionID, session))
        let (target, next) = (before.target, before.nextTarget)
        targetCharger = try Self.row(of: journey.targetChargerID, target, next, (event.chargerID, charger))
        nextTargetCharger = try Self.row(of: journey.nextTargetChargerID, next, target, (event.chargerID, charger))
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
        throw .unreadable("a journey that names what no event named")
    }

    private static func isNamed(_ text: String, _ named: Named) -> Bool {
        named.text.map { haveSameBytes(text, $0) } ?? false
    }
}
