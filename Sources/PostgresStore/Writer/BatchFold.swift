// Folds the work of a batch in memory, from the rows that the batch has read. Decides each outcome in the same way as
// SQLite's EventAppending: a repeat, a refusal, or a new event at its place. Reads no clock and no database, so that
// the fold can be repeated when rows are missing or another instance was faster.

import Engine
import Identity
import JourneyModel
import Postgres
import RateLimiting

struct BatchFold {
    private static let tailGrowth: Int64 = 8
    /// The maximum number of events of one driver that a batch with other drivers reads.
    static let sharedTailMax: Int64 = 1_000

    private let reads: BatchReads
    /// Counts the refolds that late events cause against the rate limits. If nil, refolds are not counted.
    private let charging: (any RefoldCharging)?
    /// Nil if no driver is ever deleted.
    private let digests: KeyedHashes?
    /// How many of a driver's events are read first to fold a late event. If the journey after them still differs from
    /// the stored one, eight times as many are read, and so on.
    private let tailBegin: Int64
    /// How many of a driver's events are read at most to fold a late event, apart from further events in the same
    /// millisecond as the last of them. If the journey after them still differs from the stored one, the late event is
    /// refused, unless its rate limit is off. The limit bounds the memory and the time that a client can use up.
    private let tailMax: Int64
    /// The sessions that drivers of this batch open, each with its driver's row.
    private var claimed: [TextKey: Int64] = [:]

    init(
        _ reads: BatchReads, charging: (any RefoldCharging)?, digests: KeyedHashes?, tailBegin: Int64, tailMax: Int64
    ) {
        (self.reads, self.charging, self.digests) = (reads, charging, digests)
        (self.tailBegin, self.tailMax) = (tailBegin, tailMax)
    }

    /// Folds one group. The caller folds the groups in order, because a session belongs to the first group that opens
    /// it.
    mutating func fold(_ group: DriverGroup) -> FoldedGroup {
        let key = TextKey(group.driver.rawValue)
        var state = GroupState(driver: group.driver, row: reads.drivers[key], tail: reads.tails[key])
        for work in group.works {
            if case .append(let append, _, _) = work.kind, let stored = storedKey(of: append),
                stored.driverVersion != reads.drivers[key]?.version
            {
                state.result.isStale = true
            }
        }
        if state.result.isStale { return state.result }
        if state.fold?.row.isOfNewerRelease == true {
            let failure = StoreFailure.unavailable("the journey was folded by the rules of a newer release")
            state.result.outcomes = group.works.map { _ in .failure(failure) }
            return state.result
        }
        if let row = state.fold?.row, reads.erasing.contains(row.id) {
            leave(group, &state.result)
            return state.result
        }
        var refolded = RefoldCounts()
        let refold = group.works.lazy.compactMap(\.refold).first
        if var fold = state.fold, fold.row.needsRefold || refold?.correction != nil {
            // All of the driver's events may have to be read. The driver gets a batch of its own, so that other drivers do
            // not wait. It also gets a lock, so that no other instance updates it meanwhile.
            let isLong = fold.row.lastSeq > Self.sharedTailMax
            guard group.isLong || group.needsLock && !isLong else {
                (state.result.mustBeAlone, state.result.mustBeLong) = (true, isLong)
                return state.result
            }
            let begin = fold.row.floor ?? Moment(millisecondsSinceEpoch: .min)
            let from = fold.row.needsRefold ? begin : max(begin, refold?.correction?.from ?? begin)
            guard let tail = reads.tails[key], tail.from == from, tail.through == nil else {
                state.result.need.tail = BatchNeed.Tail(from: from)
                return state.result
            }
            refolded = fold.refold(at: refold?.now) { event, _ in refold?.correction?.settings.apply(to: &event) }
            state.fold = fold
        }
        for work in group.works where state.result.takesMore {
            switch work.kind {
            case .append(let append, _, _): self.append(append, inDoubt: work.batchesInDoubt, &state)
            case .register(let registration, _): register(registration, &state)
            case .expire(let request, _): expire(request, &state)
            case .refold: state.result.outcomes.append(.refold(refolded))
            }
        }
        if let eventsMax = state.result.need.tail?.eventsMax, eventsMax > Self.sharedTailMax, !group.isLong {
            state.result = FoldedGroup()
            (state.result.mustBeAlone, state.result.mustBeLong) = (true, true)
        }
        if state.result.need.isNothing, !state.result.isStale {
            for claim in state.result.claims { claimed[TextKey(claim.sessionID)] = claim.owner }
        }
        return state.finished()
    }

    /// Does no work for a driver whose events are being rewritten by a deletion. If the group has the driver's old id,
    /// the deletion has renamed the driver after the batch read the row. Then the group is stale, and is read again;
    /// under the old id there is no driver any more. If the group already has the new id, its work is left undone: a
    /// refold by new rules is found again after the deletion, and an expiry is tried again.
    private func leave(_ group: DriverGroup, _ result: inout FoldedGroup) {
        result.isStale = !group.driver.isPseudonym
        result.outcomes = group.works.map { work in
            if case .refold = work.kind { return .refold(RefoldCounts()) }
            return .failure(.unavailable("the driver is being deleted"))
        }
    }

    /// The state of one driver while its group is folded.
    private struct GroupState {
        let driver: DriverID
        /// Nil while the driver does not exist.
        var fold: DriverFold?
        /// Keys of events that are answered as stored although they were found in the table: an earlier batch with the
        /// same work, whose answer was lost, has stored them. A further copy of such an event is answered as a repeat.
        var answeredKeys: Set<TextKey> = []
        var result = FoldedGroup()

        init(driver: DriverID, row: StoredDriver?, tail: BatchReads.Tail?) {
            self.driver = driver
            fold = row.map { DriverFold($0, tail: tail) }
        }

        /// Removes the driver from this state and returns it; creates it if it does not exist. The caller puts it back.
        /// In the meantime there is only one copy of the events, so that changing it copies nothing.
        mutating func take(at now: Moment) -> DriverFold {
            defer { fold = nil }
            if let fold { return fold }
            result.createdAt = now
            return DriverFold(StoredDriver(new: driver), tail: nil)
        }

        consuming func finished() -> FoldedGroup {
            guard let fold, fold.isChanged, result.need.isNothing, !result.isStale, !result.mustBeAlone else {
                return result
            }
            result.moved = fold.moved
            // Sorted by arrival, so that the feed delivers the events in this order.
            result.added = (fold.belowFloor + fold.tail.events.filter { $0.unsaved != nil }).sorted { $0.seq < $1.seq }
            result.refolded = fold.tail.events.filter(\.isChanged)
            result.corrected = fold.tail.events.filter(\.isCorrected)
            result.sessions = fold.sessions.values.map { session in
                var session = session
                session.driver = fold.row.id
                return session
            }
            return result
        }
    }

    // MARK: Events

    private func storedKey(of append: PreparedAppend) -> StoredKey? {
        reads.keys[DriverText(append.request.driver.rawValue, append.request.submission.idempotencyKey)]
    }

    private mutating func append(_ append: PreparedAppend, inDoubt batches: [Int64], _ state: inout GroupState) {
        if let outcome = repeated(append, inDoubt: batches, &state) {
            state.result.outcomes.append(.event(outcome))
            return
        }
        let request = append.request
        // A service sends the driver's id. A wrong id must not create a driver, and a service must not write to a
        // deleted driver.
        if request.service != nil, state.fold == nil || request.driver.isPseudonym {
            state.result.outcomes.append(.event(.driverNotFound))
            return
        }
        let use = sessionUse(of: request.submission.sessionID, &state)
        if state.fold == nil, isErased(request.driver, at: request.receivedAt, &state) {
            state.result.outcomes.append(.event(.failed(.driverErased)))
            return
        }
        switch use {
        case .ofAnother: state.result.outcomes.append(.event(.sessionNotFound))
        case .unknown where request.requiresRegisteredSession:
            state.result.outcomes.append(.event(.sessionNotFound))
        case .undecided: break
        case .none, .known, .unknown:
            if let outcome = store(append, use, &state) { state.result.outcomes.append(.event(outcome)) }
        }
    }

    /// Returns the outcome of a repeat; nil for a new event. Exception: if this work was tried before by a batch whose
    /// answer was lost (`inDoubt`), and that batch has stored the event, the event is answered as stored, not as a
    /// repeat. If the client sent the event twice, only the first copy is answered as stored.
    private func repeated(
        _ append: PreparedAppend, inDoubt batches: [Int64], _ state: inout GroupState
    ) -> EventOutcome? {
        guard let fold = state.fold else { return nil }
        let submission = append.request.submission
        if let stored = storedKey(of: append) {
            guard stored.isRepeated(by: submission, digest: append.digest) else { return .keyReused }
            // A late event of this batch may have changed the verdict.
            let verdict = fold.tail.event(underKey: submission.idempotencyKey)?.verdict ?? stored.verdict
            let event = StoredEvent(eventID: stored.eventID, verdict: verdict, journey: fold.journey)
            let isOwn = stored.batch.map(batches.contains) ?? false
            return isOwn && state.answeredKeys.insert(TextKey(submission.idempotencyKey)).inserted
                ? .stored(event) : .replayed(event)
        }
        guard let added = fold.added(underKey: submission.idempotencyKey), let unsaved = added.unsaved else {
            return nil
        }
        let sent = unsaved.append.request.submission
        let isRepeat =
            unsaved.append.digest == append.digest
            || submission.isRepeat(
                withStoredAppState: sent.appState, schemaVersion: sent.schemaVersion, hasDetails: sent.details != nil
            ) { $0 == unsaved.append.digest }
        guard isRepeat else { return .keyReused }
        return .replayed(StoredEvent(eventID: added.event.eventID, verdict: added.verdict, journey: fold.journey))
    }

    /// Returns whether the driver, who has no row, was deleted so recently that requests from before the deletion may
    /// still be in progress. A request must not create such a driver again. If the tombstone has not been read yet,
    /// notes in `need` that it must be read, and returns false.
    private func isErased(_ driver: DriverID, at now: Moment, _ state: inout GroupState) -> Bool {
        guard let digests else { return false }
        guard let erasedAt = reads.erasedAt[TextKey(driver.rawValue)] else {
            state.result.need.tombstone = digests.driver(driver)
            return false
        }
        state.result.creatingDigest = digests.driver(driver)
        return erasedAt.map { AccountRules.isSettling(erasedAt: $0, at: now) } ?? false
    }

    /// Prepares the fold for an event at `time`. Returns false if more events must be read, or if the event is left to
    /// another batch.
    private func isReady(_ fold: inout DriverFold, for time: Moment, _ result: inout FoldedGroup) -> Bool {
        if fold.isReady(for: time) { return true }
        if fold.isChanged || !result.outcomes.isEmpty {
            result.isLeft = true
            return false
        }
        fold.forgetTail()
        if fold.isReady(for: time) { return true }
        result.need.tail = BatchNeed.Tail(from: time, eventsMax: tailBegin)
        return false
    }

    /// Called when the events in `tail` do not suffice for the next work. If this is the group's first work, notes that
    /// more events must be read. Otherwise leaves the work to another batch (`FoldedGroup.isLeft`).
    private func needMore(than tail: BatchReads.Tail?, _ result: inout FoldedGroup) {
        guard let tail, result.outcomes.isEmpty else {
            result.isLeft = true
            return
        }
        let count = max(Int64(tail.tail.events.count), tailBegin)
        let grown = Self.tailGrowth * count
        result.need.tail = BatchNeed.Tail(from: tail.from, eventsMax: count < tailMax ? min(grown, tailMax) : grown)
    }

    /// Returns whether a late event is refused because it would cause too many stored events to be folded again. Such
    /// an event is charged for the events that were read in vain, so that the client cannot send it again at once.
    private func refuses(
        _ claim: AdmissionClaim, after tail: BatchReads.Tail?, _ result: inout FoldedGroup
    ) -> Bool {
        guard let charging, let count = tail?.tail.events.count, count >= tailMax, result.outcomes.isEmpty,
            !charging.isUnlimited(claim)
        else { return false }
        result.charges.append((claim, count))
        result.isCharged = true
        return true
    }

    /// Adds a new event and returns its outcome. Returns nil if more events must be read first, or if the event is left
    /// to another batch.
    private mutating func store(
        _ append: PreparedAppend, _ use: SessionUse, _ state: inout GroupState
    ) -> EventOutcome? {
        guard state.result.need.isNothing else { return nil }
        let request = append.request
        var fold = state.take(at: request.receivedAt)
        defer { state.fold = fold }
        let clock = ClockCorrection(request, memory: fold.row.clockMemory)
        guard isReady(&fold, for: clock.corrected, &state.result) else { return nil }
        var sharingTime = 0
        if let charging, let headAt = fold.headAt, clock.corrected <= headAt {
            sharingTime = fold.count(at: clock.corrected, max: RefoldCharges.sharingTimeMax)
            guard charging.permitsRefold(request.claim, sharingTime: sharingTime) else { return .rateLimited }
        }
        let settings = settings(of: request, use, fold)
        let added = fold.add(
            OrderedEvent(request, correctedAt: clock.corrected, settings: settings.settings),
            FoldedEvent.Unsaved(append: append, clock: clock, settingsVersion: settings.version))
        guard let added else {
            let tail = reads.tails[TextKey(state.driver.rawValue)]
            if refuses(request.claim, after: tail, &state.result) { return .rateLimited }
            needMore(than: tail, &state.result)
            return nil
        }
        let verdict = added.verdict
        state.result.settings[settings.version] = (settings, request.receivedAt)
        if case .unknown(let sessionID) = use { open(sessionID, at: request.receivedAt, &fold, &state.result) }
        fold.remember(clock.memory)
        let charged = added.refoldedCount + sharingTime
        if charged > 0 { state.result.charges.append((request.claim, charged)) }
        if charged >= RefoldCharges.rowsPerCharge { state.result.isCharged = true }
        return .stored(
            StoredEvent(
                eventID: request.submission.eventID, verdict: verdict, journey: fold.journey,
                chargesRefold: charged >= RefoldCharges.rowsPerCharge))
    }

    /// Returns the settings that determine the event's time limits.
    private func settings(of request: AppendRequest, _ use: SessionUse, _ fold: DriverFold) -> VersionedSettings {
        if request.chargerSettings.isEmpty { return request.settings }
        let choice = SettingsChoice(byCharger: request.chargerSettings, otherwise: request.settings)
        let registered: String? = if case .known(let session?) = use { session.registeredCharger } else { nil }
        return choice.settings(
            charger: fold.journey.settingsCharger(
                registered: registered, event: request.submission.chargerID, sessionID: request.submission.sessionID))
    }

    // MARK: Sessions

    private enum SessionUse {
        case none
        /// A session of this driver; nil if the session's row was not read.
        case known(SessionRow?)
        case unknown(String)
        case ofAnother
        /// Not known yet. `GroupState.result` says what must be read first, or that the batch must be read again.
        case undecided
    }

    private func sessionUse(of sessionID: String?, _ state: inout GroupState) -> SessionUse {
        guard let sessionID else { return .none }
        let key = TextKey(sessionID)
        if let own = state.fold?.sessions[key] { return .known(own) }
        // The row of a session proves that the session is the driver's, even if the owner of the session is missing in
        // the reads: sessions are read later, and the driver may have claimed this one in between.
        let row = reads.sessions[DriverText(state.driver.rawValue, sessionID)] ?? nil
        guard let id = state.fold?.row.id else { return use(ofNewDriver: sessionID, isOpened: row != nil, &state) }
        if row != nil || reads.owners[key] == id { return .known(row) }
        return reads.owners[key] == nil ? unclaimed(sessionID, &state) : .ofAnother
    }

    /// Returns the use of a session by a driver for whom no row was read.
    private func use(ofNewDriver sessionID: String, isOpened: Bool, _ state: inout GroupState) -> SessionUse {
        let driver = TextKey(state.driver.rawValue)
        guard let owner = reads.owners[TextKey(sessionID)] else {
            if !isOpened { return unclaimed(sessionID, &state) }
            state.result.isStale = true
            return .undecided
        }
        if Lane.of(driver: owner) != Lane.of(state.driver.rawValue) { return .ofAnother }
        guard let found = reads.ownerIDs[owner] else {
            state.result.need.owner = owner
            return .undecided
        }
        if let found, found != driver { return .ofAnother }
        state.result.isStale = true
        return .undecided
    }

    private func unclaimed(_ sessionID: String, _ state: inout GroupState) -> SessionUse {
        // Another driver of this batch opens the session, but it is not certain that this will be stored. So this group
        // is stale, and is read again after the batch.
        if claimed[TextKey(sessionID)] != nil { state.result.isStale = true }
        return .unknown(sessionID)
    }

    private func open(
        _ sessionID: String, at now: Moment, _ fold: inout DriverFold, _ result: inout FoldedGroup
    ) {
        fold.write(SessionRow(driver: fold.row.id, sessionID: sessionID, openedAt: now))
        result.claims.append(
            SessionClaim(sessionID: sessionID, owner: fold.row.id, at: now))
    }

    private mutating func register(_ registration: SessionRegistration, _ state: inout GroupState) {
        let now = registration.receivedAt
        let complete = { (session: SessionRow) in
            var session = session
            session.registeredAt = now
            session.registeredCharger = registration.chargerID
            session.registeredMerchant = registration.merchantID
            return session
        }
        switch sessionUse(of: registration.sessionID, &state) {
        case .none, .ofAnother: state.result.outcomes.append(.registration(.sessionNotFound))
        case .undecided: break
        case .known(let session):
            if let session, session.registeredAt == nil { state.fold?.write(complete(session)) }
            state.result.outcomes.append(.registration(.existed))
        case .unknown where state.fold == nil && isErased(registration.driver, at: now, &state):
            state.result.outcomes.append(.failure(.driverErased))
        case .unknown(let sessionID):
            var fold = state.take(at: now)
            open(sessionID, at: now, &fold, &state.result)
            if let opened = fold.sessions[TextKey(sessionID)] { fold.write(complete(opened)) }
            state.fold = fold
            state.result.hasRegistered = true
            state.result.outcomes.append(.registration(.created))
        }
    }

    // MARK: Deadlines

    private mutating func expire(_ request: ExpiryRequest, _ state: inout GroupState) {
        guard var fold = state.fold else {
            state.result.outcomes.append(.expiry(false))
            return
        }
        let running = fold.journey
        var ended = running
        guard let deadline = ended.takeDeadline(before: request.now) else {
            state.result.outcomes.append(.expiry(false))
            return
        }
        guard let settings = settings(ofExpiryOf: running, request, &state),
            isReady(&fold, for: deadline.at, &state.result)
        else { return }
        let isAdded = fold.add(
            .expiry(
                deadline, of: running, driver: state.driver, at: request.now, settings: settings,
                settingsVersion: settings.version))
        guard isAdded else {
            return needMore(than: reads.tails[TextKey(state.driver.rawValue)], &state.result)
        }
        state.fold = fold
        state.result.settings[settings.version] = (settings, request.now)
        state.result.outcomes.append(.expiry(true))
    }

    /// Returns the settings for an expiry of the driver's session in progress; their version is stored with the expiry.
    /// Returns nil if the session's row must be read first.
    private func settings(
        ofExpiryOf journey: Journey, _ request: ExpiryRequest, _ state: inout GroupState
    ) -> VersionedSettings? {
        guard let rules = request.rules else { return request.settings }
        let choice = rules.choice(for: SettingsSubject(driver: state.driver, appVersion: nil, at: request.now))
        if choice.byCharger.isEmpty { return choice.otherwise }
        guard let sessionID = journey.sessionID else { return choice.settings(charger: journey.targetChargerID) }
        guard let session = reads.sessions[DriverText(state.driver.rawValue, sessionID)] else {
            state.result.need.sessionID = sessionID
            return nil
        }
        return choice.settings(charger: session?.registeredCharger ?? journey.targetChargerID)
    }
}
