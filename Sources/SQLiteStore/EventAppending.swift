// One append inside the writer's transaction: find it stored, or refuse it, or store it and fold it. It knows nothing
// of transactions, queues or other requests.
//
// Whatever can be refused is refused before the first write, so that a refusal leaves no trace without a savepoint.

import Engine
import JourneyModel

final class EventAppending {
    private let drivers: DriverTable
    private let sessions: SessionTable
    private let events: EventTable
    private let dictionaries: Dictionaries

    init(on connection: OpaquePointer) throws(SQLiteError) {
        drivers = try DriverTable(on: connection)
        sessions = try SessionTable(on: connection)
        events = try EventTable(on: connection)
        dictionaries = try Dictionaries(on: connection)
    }

    /// To be called after every rollback, also that of a savepoint.
    func forgetWhatWasRolledBack() {
        dictionaries.forget()
    }

    // MARK: Events

    func append(_ append: PreparedAppend) throws(SQLiteError) -> AppendOutcome {
        let request = append.request
        let driver = try drivers.row(of: request.driver)
        if let driver, let stored = try repeated(append, of: driver) { return stored }
        guard let session = try sessionUse(request, driver: driver) else { return .sessionNotFound }
        return .stored(try store(append, driver: driver, session: session))
    }

    private func repeated(_ append: PreparedAppend, of driver: DriverRow) throws(SQLiteError) -> AppendOutcome? {
        let key = append.request.submission.idempotencyKey
        guard let stored = try events.stored(under: key, of: driver.id, digest: append.digest) else { return nil }
        guard stored.hasSameDigest else { return .keyReused }
        return .replayed(
            StoredEvent(eventID: stored.eventID, verdict: stored.verdict, journey: driver.journey.journey))
    }

    /// What an event does to the table of sessions.
    private enum SessionUse {
        case none
        case known(Int64)
        case opens(String)
    }

    /// Nil when the session is another driver's, or has to be registered and is not.
    private func sessionUse(_ request: AppendRequest, driver: DriverRow?) throws(SQLiteError) -> SessionUse? {
        guard let sessionID = request.submission.sessionID else { return SessionUse.none }
        if let session = try sessions.row(of: sessionID) {
            return session.driver == driver?.id ? .known(session.id) : nil
        }
        return request.requiresRegisteredSession ? nil : .opens(sessionID)
    }

    private func store(
        _ append: PreparedAppend, driver: DriverRow?, session: SessionUse
    ) throws(SQLiteError) -> StoredEvent {
        let request = append.request
        let submission = request.submission
        var driver = if let driver { driver } else { try drivers.add(request.driver, at: request.receivedAt) }
        let clock = ClockCorrection(
            occurredAt: submission.occurredAt, sentAt: submission.sentAt, receivedAt: request.receivedAt,
            lastCorrectionMilliseconds: driver.lastCorrectionMilliseconds)
        driver.lastCorrectionMilliseconds = clock.lastCorrectionMilliseconds
        let new = NewEventRow(
            driver: driver.id, append: append, kind: try dictionaries.kind(of: submission, origin: .client),
            session: try row(of: session, driver: driver, at: request.receivedAt),
            charger: try dictionaries.place(submission.chargerID),
            merchant: try dictionaries.place(submission.merchantID),
            settingsVersion: try dictionaries.settingsVersion(request.settings, at: request.receivedAt), clock: clock,
            verdict: .none, after: driver.journey)
        let verdict = try fold(new, into: &driver)
        try drivers.write(driver)
        return StoredEvent(eventID: submission.eventID, verdict: verdict, journey: driver.journey.journey)
    }

    private func row(of session: SessionUse, driver: DriverRow, at now: Moment) throws(SQLiteError) -> Int64? {
        switch session {
        case .none: nil
        case .known(let id): id
        case .opens(let sessionID): try sessions.open(sessionID, of: driver.id, at: now)
        }
    }

    // MARK: The fold

    /// Adds the event at its place and brings the driver's head up to date. An event after the head costs the same
    /// however long the journey is.
    private func fold(_ new: NewEventRow, into driver: inout DriverRow) throws(SQLiteError) -> Verdict {
        let placed = PlacedEvent(new)
        if try comesAfterHead(placed, of: driver) {
            var new = new
            let before = driver.journey
            new.verdict = new.after.journey.apply(placed)
            try new.after.findRows(from: before, session: new.session, charger: new.charger, of: placed)
            let id = try events.add(new)
            driver.head = DriverRow.Head(event: id, correctedAt: placed.occurredAt)
            driver.journey = new.after
            return new.verdict
        }
        return try foldLate(new, placed, into: &driver)
    }

    private func comesAfterHead(_ event: PlacedEvent, of driver: DriverRow) throws(SQLiteError) -> Bool {
        guard let head = driver.head else { return true }
        if head.correctedAt != event.occurredAt { return head.correctedAt < event.occurredAt }
        guard let row = try events.event(head.event) else { throw .unreadable("head_event") }
        return row.event < event
    }

    /// From the last point before the event, over it, and on until the journey is the one that was stored there:
    /// from then on nothing changes, because a verdict depends on nothing but the journey before and the event.
    private func foldLate(
        _ new: NewEventRow, _ placed: PlacedEvent, into driver: inout DriverRow
    ) throws(SQLiteError) -> Verdict {
        var new = new
        let before = try events.predecessor(of: placed, of: driver.id)?.after ?? StoredJourney()
        new.after = before
        new.verdict = new.after.journey.apply(placed)
        try new.after.findRows(from: before, session: new.session, charger: new.charger, of: placed)
        _ = try events.add(new)
        if new.after.journey == before.journey { return new.verdict }

        var running = new.after
        var metStoredJourney = false
        try events.forEachSuccessor(of: placed, of: driver.id) { (successor) throws(SQLiteError) in
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
        if !metStoredJourney { driver.journey = running }
        return new.verdict
    }

    // MARK: Sessions

    func register(_ registration: SessionRegistration) throws(SQLiteError) -> RegistrationOutcome {
        let driver = try drivers.row(of: registration.driver)
        let session = try sessions.row(of: registration.sessionID)
        if let session {
            guard session.driver == driver?.id else { return .sessionNotFound }
            if !session.isRegistered { try complete(session.id, with: registration) }
            return .existed
        }
        let owner = if let driver { driver } else { try drivers.add(registration.driver, at: registration.receivedAt) }
        let id = try sessions.open(registration.sessionID, of: owner.id, at: registration.receivedAt)
        try complete(id, with: registration)
        return .created
    }

    private func complete(_ session: Int64, with registration: SessionRegistration) throws(SQLiteError) {
        try sessions.register(
            session, at: registration.receivedAt, charger: try dictionaries.place(registration.chargerID),
            merchant: try dictionaries.place(registration.merchantID))
    }
}

extension PlacedEvent {
    fileprivate init(_ row: NewEventRow) {
        let request = row.append.request
        self.init(
            name: request.submission.name, sessionID: request.submission.sessionID,
            chargerID: request.submission.chargerID, occurredAt: row.clock.corrected,
            sequence: request.submission.sequence, eventID: request.submission.eventID,
            idempotencyKey: request.submission.idempotencyKey, origin: .client,
            gracePeriodSeconds: request.settings.settings.gracePeriodSeconds,
            hardTimeoutSeconds: request.settings.settings.hardTimeoutSeconds)
    }
}

extension StoredJourney {
    /// After `event` was applied to `before`: the row numbers of what the journey names now. All that it can name
    /// was named by `before` or by the event.
    mutating func findRows(
        from before: StoredJourney, session: Int64?, charger: Int64?, of event: PlacedEvent
    ) throws(SQLiteError) {
        self.session = try Self.row(
            of: journey.sessionID,
            among: [(before.journey.sessionID, before.session), (event.sessionID, session)])
        let places = [
            (before.journey.targetChargerID, before.targetCharger),
            (before.journey.nextTargetChargerID, before.nextTargetCharger), (event.chargerID, charger),
        ]
        targetCharger = try Self.row(of: journey.targetChargerID, among: places)
        nextTargetCharger = try Self.row(of: journey.nextTargetChargerID, among: places)
    }

    private static func row(
        of text: String?, among known: [(text: String?, row: Int64?)]
    ) throws(SQLiteError) -> Int64? {
        guard let text else { return nil }
        for candidate in known {
            if let candidateText = candidate.text, candidateText.utf8.elementsEqual(text.utf8) { return candidate.row }
        }
        throw .unreadable("a journey that names what no event named")
    }
}
