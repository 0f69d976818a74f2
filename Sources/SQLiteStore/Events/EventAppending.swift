// Appends one event inside the writer's transaction: recognises a repeat of a stored event, refuses the event, or
// stores and folds it. Also registers sessions.
//
// Every check that may refuse an event comes before the event's first write. A refused event therefore leaves nothing
// behind, even without a savepoint.

import Engine
import Identity
import JourneyModel
import RateLimiting

final class EventAppending {
    let drivers: DriverCache
    private let sessions: SessionTable
    private let events: EventTable
    var keys: EventKeys { events.keys }
    private let internTables: InternTables
    private let uses: TextReferences
    private let erased: ErasedDrivers?
    let folding: EventFolding
    private let refolding: Refolding
    private let refolds: RefoldTable
    /// Charges the rate limits for refolds of late events. If nil, refolds are not charged.
    private let charging: (any RefoldCharging)?
    /// The refold budget of the current transaction.
    var budget = RefoldBudget()

    /// - Parameter digests: computes the keyed hashes that identify deleted drivers. If nil, no driver is ever deleted.
    init(
        on connection: OpaquePointer, newestKeys: NewestKeys, digests: KeyedHashes?, charging: (any RefoldCharging)?
    ) throws(SQLiteError) {
        self.charging = charging
        refolds = try RefoldTable(on: connection)
        drivers = try DriverCache(on: connection)
        sessions = try SessionTable(on: connection)
        events = try EventTable(on: connection, newestKeys: newestKeys)
        internTables = try InternTables(on: connection)
        uses = try TextReferences(on: connection)
        erased = try digests.map { (digests) throws(SQLiteError) in try ErasedDrivers(digests, on: connection) }
        folding = EventFolding(events: events, internTables: internTables)
        refolding = try Refolding(folding, events: events, table: refolds, on: connection)
    }

    /// Must be called after the rollback of a savepoint, and before the rollback of a transaction.
    /// `EventKeys.noteRollback` says why.
    func noteRollback() {
        keys.noteRollback()
        forget()
    }

    /// Empties the caches and drops their unwritten changes. Must be called in two cases:
    ///
    /// - Another connection, or other work such as a deletion, may have changed drivers or shared texts. The caller
    ///   must first write the changed rows of the cache.
    /// - A transaction or a savepoint was rolled back. `noteRollback` then calls this function.
    func forget() {
        internTables.forget()
        uses.forget()
        drivers.forget()
        folding.forget()
    }

    // MARK: Events

    enum Appended {
        case outcome(EventOutcome)
        /// A refold of the driver is not complete. The caller must append the associated value again when the refold
        /// continues. If its `isStored` is true, the event is already stored and began the refold.
        case waits(PreparedAppend)
    }

    func append(_ append: PreparedAppend) throws(SQLiteError) -> Appended {
        let driver = try drivers.row(of: append.request.driver)
        if let driver, try isOfNewerRelease(driver) {
            // If `isStored` is true, the event was stored and began a refold, which a newer release has taken over. The
            // outcome is therefore unknown. If `isStored` is false, nothing was stored.
            let reason = SQLiteError.foldedByNewerRelease.message
            return .outcome(.failed(append.isStored ? .unknown(reason) : .unavailable(reason)))
        }
        if let driver, try mustRefold(driver, before: append), try !refold(driver).isComplete { return .waits(append) }
        if let driver, let stored = try repeated(append, of: driver) { return .outcome(stored) }
        // If `isStored` is true, the event was stored, but its driver was deleted before the refold was complete. A
        // driver's own request fails. A service gets the same outcome as for an unknown driver.
        if append.isStored {
            return .outcome(append.request.service == nil ? .failed(.driverErased) : .driverNotFound)
        }
        // A service may send a wrong driver id. The event must not create a driver. It must also not be added to a
        // deleted driver, whose id is a pseudonym.
        if append.request.service != nil, driver == nil || append.request.driver.isPseudonym {
            return .outcome(.driverNotFound)
        }
        guard let session = try sessionUse(append, driver: driver) else { return .outcome(.sessionNotFound) }
        return try store(append, driver: driver, session: session)
    }

    /// Returns whether the driver's refold must be complete before `append` is appended. A refold by new fold rules or
    /// by a correction of settings delays neither events after the head nor repeats of stored events. An event after
    /// the head is folded onto the stored journey, and the refold folds it again.
    ///
    /// A late event waits for every refold, because its own refold would mix old and new rules or settings. While the
    /// refold of a late event is in progress, all events of the driver wait, because `driver.journey` does not include
    /// the late event yet.
    private func mustRefold(_ driver: DriverRow, before append: PreparedAppend) throws(SQLiteError) -> Bool {
        guard driver.needsRefold else { return false }
        if append.isStored { return true }
        if driver.isRefolding, let mark = try refolds.mark(of: driver.id), mark.cause != nil { return true }
        let clock = ClockCorrection(append.request, memory: driver.clockMemory)
        guard let head = driver.head, clock.corrected <= head.correctedAt else { return false }
        return try events.stored(underKeyOf: append, of: driver.id) == nil
    }

    private func repeated(_ append: PreparedAppend, of driver: DriverRow) throws(SQLiteError) -> EventOutcome? {
        guard let stored = try events.stored(underKeyOf: append, of: driver.id) else { return nil }
        guard stored.isRepeat else { return .keyReused }
        let event = StoredEvent(
            eventID: stored.eventID, verdict: stored.verdict, journey: driver.journey.journey,
            chargesRefold: append.isStored)
        return append.isStored ? .stored(event) : .replayed(event)
    }

    /// The effect of an event on the table of sessions.
    private enum SessionUse {
        case none
        case known(Int64)
        case opens(String)
    }

    /// Returns nil if the event must be refused: its session belongs to another driver, or does not exist although it
    /// must be registered.
    private func sessionUse(_ append: PreparedAppend, driver: DriverRow?) throws(SQLiteError) -> SessionUse? {
        guard let sessionID = append.request.submission.sessionID else { return SessionUse.none }
        if let current = driver?.sessionRow(named: sessionID) { return .known(current) }
        if let session = try sessions.row(of: sessionID) {
            return session.driver == driver?.id ? .known(session.id) : nil
        }
        return append.request.requiresRegisteredSession ? nil : .opens(sessionID)
    }

    private func store(
        _ append: PreparedAppend, driver: DriverRow?, session: SessionUse
    ) throws(SQLiteError) -> Appended {
        // No local copy of `append.request`, because a copy would cost a dozen retains and releases.
        let receivedAt = append.request.receivedAt
        let driver = if let driver { driver } else { try newDriver(append.request.driver, at: receivedAt) }
        let clock = ClockCorrection(append.request, memory: driver.clockMemory)
        var sharingTime = 0
        if let head = driver.head, clock.corrected <= head.correctedAt, let charging {
            sharingTime = try events.count(
                from: driver.chain.last, at: clock.corrected, max: RefoldCharges.sharingTimeMax)
            guard charging.permitsRefold(AdmissionClaim(append), sharingTime: sharingTime) else {
                return .outcome(.rateLimited)
            }
        }
        let kind = try internTables.kind(
            of: append.request.submission, origin: .client, sender: append.request.sender)
        let settings = try settings(of: append, driver: driver, session: session)
        let new = NewEventRow(
            driver: driver.id, append: append,
            placed: OrderedEvent(append.request, correctedAt: clock.corrected, settings: settings.settings),
            kind: kind.id, session: try row(of: session, driver: driver, at: receivedAt),
            charger: try internTables.place(append.request.submission.chargerID, isCharger: true),
            merchant: try internTables.place(append.request.submission.merchantID, isCharger: false),
            settingsVersion: try internTables.settingsVersion(settings, at: receivedAt), clock: clock)
        driver.noteMixedRules()
        driver.remember(clock.memory)
        if let place = new.charger { try uses.note(place: place, of: driver) }
        if let place = new.merchant { try uses.note(place: place, of: driver) }
        try uses.note(kind: kind, of: driver)
        let folded = try fold(new, into: driver, sharingTime: sharingTime)
        if let mark = folded.mark {
            if append.request.sender == .service, let event = mark.cause {
                refolding.keep(AdmissionClaim(append), ofEvent: event)
            }
            return .waits(append.stored())
        }
        let charged = folded.rowCount + sharingTime
        if charged > 0 { budget.charges.append(RefoldCharge(AdmissionClaim(append), rowCount: charged)) }
        return .outcome(
            .stored(
                StoredEvent(
                    eventID: append.request.submission.eventID, verdict: folded.verdict,
                    journey: driver.journey.journey, chargesRefold: charged >= RefoldCharges.rowsPerCharge)))
    }

    /// Returns the settings that determine the event's time limits. Their version is stored with the event, so that
    /// every later fold uses the same settings.
    private func settings(
        of append: PreparedAppend, driver: DriverRow, session: SessionUse
    ) throws(SQLiteError) -> VersionedSettings {
        if append.request.chargerSettings.isEmpty { return append.request.settings }
        let choice = SettingsChoice(
            byCharger: append.request.chargerSettings, otherwise: append.request.settings)
        let registered: String? =
            if case .known(let row) = session { try sessions.registeredCharger(of: row) } else { nil }
        let submission = append.request.submission
        return choice.settings(
            charger: driver.journey.journey.settingsCharger(
                registered: registered, event: submission.chargerID, sessionID: submission.sessionID))
    }

    /// Returns the settings whose version is stored with the expiry, the event that the server stores after a session's
    /// deadline.
    func settings(ofExpiryOf driver: DriverRow, _ request: ExpiryRequest) throws(SQLiteError) -> VersionedSettings {
        guard let rules = request.rules else { return request.settings }
        let choice = rules.choice(for: SettingsSubject(driver: driver.driver, appVersion: nil, at: request.now))
        if choice.byCharger.isEmpty { return choice.otherwise }
        let registered: String? =
            if let session = driver.journey.session { try sessions.registeredCharger(of: session) } else { nil }
        return choice.settings(charger: registered ?? driver.journey.journey.targetChargerID)
    }

    /// Adds an event to the driver's fold. If `mark` of the result is set, the event began a refold that this
    /// transaction does not complete.
    ///
    /// - Parameter sharingTime: the number of stored events with the new event's corrected time. They are charged like
    ///   refolded events, because SQLite had to sort them to find the new event's position.
    func fold(
        _ new: consuming NewEventRow, into driver: DriverRow, sharingTime: Int = 0
    ) throws(SQLiteError) -> EventFolding.Folded {
        let folded = try folding.fold(new, into: driver, rowsMax: budget.rowsPerLateEvent)
        if var mark = folded.mark {
            mark.rowCount += sharingTime
            try refolds.write(mark, of: driver.id)
            driver.beginRefold()
        }
        try drivers.write(driver)
        return folded
    }

    /// Throws `.driverWasErased` if the driver was deleted so recently that the request may be older than the deletion.
    /// This is the request's first write, so the request must not be refused after this call.
    private func newDriver(_ id: DriverID, at now: Moment) throws(SQLiteError) -> DriverRow {
        if let erased, try erased.isSettling(id, at: now) { throw .driverWasErased }
        return try drivers.add(id, at: now)
    }

    private func row(of session: SessionUse, driver: DriverRow, at now: Moment) throws(SQLiteError) -> Int64? {
        switch session {
        case .none: nil
        case .known(let id): id
        case .opens(let sessionID): try sessions.open(sessionID, of: driver.id, at: now)
        }
    }

    /// Returns whether a release with newer fold rules has folded or is refolding the driver's events. During an
    /// update, processes of two releases may use the database.
    func isOfNewerRelease(_ driver: DriverRow) throws(SQLiteError) -> Bool {
        if driver.isOfNewerRelease { return true }
        guard driver.isRefolding, let mark = try refolds.mark(of: driver.id) else { return false }
        return mark.rules > Fold.rulesVersion
    }

    /// Refolds as many of the driver's events as the transaction's budget still allows. `isComplete` of the result
    /// tells whether all events are refolded.
    ///
    /// Must be called before a late event or an expiry is stored. Otherwise a fold could mix the rules of two releases,
    /// or use a half-finished refold. `mustRefold` says which events need no call.
    ///
    /// - Parameters:
    ///   - correction: the correction of settings to apply if no other refold of the driver is in progress.
    ///   - reporting: the row number of the correction of settings whose counts the caller reports. If the refold
    ///     applies another correction, the refold's counts are kept for `takeUnreported`.
    func refold(
        _ driver: DriverRow, correction: Refolding.Correction? = nil, reporting: Int64? = nil, now: Moment? = nil
    ) throws(SQLiteError) -> Refolding.Piece {
        guard budget.rowsLeft > 0 else { return Refolding.Piece() }
        let start = ContinuousClock.now
        folding.forget(driver)
        let piece = try refolding.fold(driver, rowsMax: budget.rowsLeft, correction: correction, now: now)
        budget.spend(piece.rowCount, since: start)
        if let charge = piece.charge { budget.charges.append(charge) }
        if piece.correction != reporting { refolding.keepUnreported(piece) }
        try drivers.write(driver)
        return piece
    }

    /// Returns the counts that `refold` has kept for this correction of settings, and forgets them.
    func takeUnreported(of correction: Int64) -> RefoldCounts { refolding.takeUnreported(of: correction) }

    /// Charges the rate limits for the transaction's refolds. Must be called after the transaction is committed.
    func chargeForRefolds() {
        for charge in budget.charges {
            charging?.charge(charge.claim, rowCount: charge.rowCount)
            if let event = charge.keptFor { refolding.forgetClaim(ofEvent: event) }
        }
        budget.charges = []
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
        let owner = if let driver { driver } else { try newDriver(registration.driver, at: registration.receivedAt) }
        let id = try sessions.open(registration.sessionID, of: owner.id, at: registration.receivedAt)
        try complete(id, with: registration)
        try drivers.writeChanged()
        try sessions.forgetUnusedBeyondMax(of: owner.id)
        return .created
    }

    private func complete(_ session: Int64, with registration: SessionRegistration) throws(SQLiteError) {
        try sessions.register(
            session, at: registration.receivedAt, chargerID: registration.chargerID,
            merchantID: registration.merchantID)
    }
}

extension AdmissionClaim {
    fileprivate init(_ append: PreparedAppend) { self = append.request.claim }
}
