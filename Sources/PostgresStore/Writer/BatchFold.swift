// Folds the work of a batch in memory, from the rows that the batch has read. Each outcome is a repeat, a refusal, or a
// new event at its place in the order. SQLite's EventAppending decides in the same way.
//
// This file reads no clock and no database, so a fold can be repeated. The fold is repeated if rows were missing, or if
// another instance updated the driver first.

import Engine
import Identity
import JourneyModel
import Postgres
import RateLimiting

struct BatchFold {
    /// The maximum number of events that a batch with several drivers reads for each driver.
    static let sharedTailMax: Int64 = 1_000

    let reads: BatchReads
    /// Applies the rate limits to the refolds that late events cause. If nil, these refolds are not charged.
    private let charging: (any RefoldCharging)?
    /// Nil if no driver is ever deleted.
    private let digests: KeyedHashes?
    /// The number of stored events in the first read for a late event. If more events are needed, each further read has
    /// eight times as many events as the read before it.
    let tailBegin: Int64
    /// The maximum number of stored events in a read for a late event. All events of the last millisecond are read, so
    /// there may be more. If even these events do not suffice, the refold is done in parts of this length.
    let tailMax: Int64
    /// The sessions that drivers of this batch open, with the `driver.id` of each session's driver.
    var claimed: [TextKey: Int64] = [:]

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
        var state = GroupState(group, row: reads.drivers[key], tail: reads.tails[key])
        for work in group.works {
            if case .append(let append, _, _) = work.kind, let stored = storedKey(of: append),
                stored.driverVersion != reads.drivers[key]?.version
            {
                state.result.isStale = true
            }
        }
        if state.result.isStale { return state.result }
        if state.fold?.row.isOfNewerRelease == true {
            let reason = "the journey was folded by the rules of a newer release"
            state.result.outcomes = group.works.map { .failure($0.failure(reason)) }
            return state.result
        }
        if let row = state.fold?.row, reads.erasing.contains(row.id) {
            leave(group, &state.result)
            return state.result
        }
        if let refolded = reads.refolded, !refolded.isInsertion {
            state.fold = DriverFold(after: refolded)
        }
        for work in group.works where state.result.takesMore {
            let mustRefold = mustRefold(before: work, state.fold)
            if mustRefold, state.result.outcomes.isEmpty, let row = state.fold?.row {
                state.result = refold(of: row, group)
                return state.result
            }
            if mustRefold || isLeft(work, after: state.result.outcomes) {
                state.result.isLeft = true
                break
            }
            switch work.kind {
            case .append(let append, _, _): self.append(append, inDoubt: work.batchesInDoubt, &state)
            case .register(let registration, _): register(registration, &state)
            case .expire(let request, _): expire(request, &state)
            case .refold(let refold, _): self.refold(refold, &state.result)
            }
        }
        let tailMax = state.result.need.tail?.eventsMax ?? 0
        if tailMax > Self.sharedTailMax || state.result.need.refold != nil, !group.isLong {
            state.result = FoldedGroup()
            (state.result.mustBeAlone, state.result.mustBeLong) = (true, true)
        }
        if state.result.need.isNothing, !state.result.isStale {
            for claim in state.result.claims { claimed[TextKey(claim.sessionID)] = claim.owner }
        }
        return state.finished()
    }

    /// Does no work for a driver while a deletion rewrites the driver's events.
    ///
    /// A deletion gives the driver a new id. If the group has the old id, the deletion began after the batch had read
    /// the row. The group's rows are then read again, and no driver is found under the old id.
    ///
    /// If the group has the new id, its work is done later. The next search for refolds finds the driver, or the next
    /// check of deadlines stores the expiry.
    private func leave(_ group: DriverGroup, _ result: inout FoldedGroup) {
        result.isStale = !group.driver.isPseudonym
        result.outcomes = group.works.map { work in
            if case .refold = work.kind { return .refold(RefoldCounts()) }
            return .failure(work.failure("the driver is being deleted"))
        }
    }

    /// The state of one driver while its group is folded.
    struct GroupState {
        let group: DriverGroup
        /// Nil while the driver does not exist.
        var fold: DriverFold?
        /// Keys of events that this batch has answered as stored, although an earlier batch with the same work stored
        /// them. The earlier batch could not answer, because it got no answer from PostgreSQL. Each further copy of
        /// such an event is answered as a repeat.
        var answeredKeys: Set<TextKey> = []
        var result = FoldedGroup()

        var driver: DriverID { group.driver }

        init(_ group: DriverGroup, row: StoredDriver?, tail: BatchReads.Tail?) {
            self.group = group
            fold = row.map { DriverFold($0, tail: tail) }
        }

        /// Removes the driver's fold from this state and returns it. For a driver without a row, creates a fold. The
        /// caller puts the fold back; until then, only the caller holds the arrays of events, so changes do not copy
        /// them.
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
            result.added = fold.added
            result.refolded = fold.tail.events.filter(\.isChanged)
            result.sessions = sessions(of: fold)
            return result
        }

        /// Returns the sessions to write. The opened sessions come first, in the order of opening, so that their
        /// numbers ascend in this order.
        private func sessions(of fold: DriverFold) -> [SessionRow] {
            var registered = fold.sessions
            let opened = result.claims.compactMap { registered.removeValue(forKey: TextKey($0.sessionID)) }
            return (opened + registered.values).map { session in
                var session = session
                session.driver = fold.row.id
                return session
            }
        }
    }

    // MARK: Events

    func storedKey(of append: PreparedAppend) -> StoredKey? {
        reads.keys[DriverText(append.request.driver.rawValue, append.request.submission.idempotencyKey)]
    }

    private mutating func append(_ append: PreparedAppend, inDoubt batches: [Int64], _ state: inout GroupState) {
        if let outcome = repeated(append, inDoubt: batches, &state) {
            state.result.outcomes.append(.event(outcome))
            return
        }
        let request = append.request
        // A service names the driver in its request, and may name a wrong one. A wrong id must not create a driver, and
        // a service must not write to a deleted driver.
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
        // Another transaction may have deleted the session between two reads, so the reads are repeated. If they then
        // find no owner either, the event opens the session again.
        case .known(nil) where state.group.mayReadAgain: state.result.isStale = true
        case .none, .known, .unknown:
            if let outcome = store(append, use, &state) { state.result.outcomes.append(.event(outcome)) }
        }
    }

    /// Returns the outcome of a repeat; nil for a new event.
    ///
    /// An earlier batch with this work (`inDoubt`) may have stored the event without receiving an answer. In this case,
    /// the first copy of the event is answered as stored. Further copies are repeats.
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

    /// For a driver without a row, returns whether the driver was deleted recently. Requests from before the deletion
    /// may still be in progress. Such a request must not create the driver again.
    ///
    /// If the tombstone has not been read yet, notes in `need` that it must be read, and returns false.
    func isErased(_ driver: DriverID, at now: Moment, _ state: inout GroupState) -> Bool {
        guard let digests else { return false }
        guard let erasedAt = reads.erasedAt[TextKey(driver.rawValue)] else {
            state.result.need.tombstone = digests.driver(driver)
            return false
        }
        state.result.creatingDigest = digests.driver(driver)
        return erasedAt.map { AccountRules.isSettling(erasedAt: $0, at: now) } ?? false
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
        guard isReady(&fold, for: clock.corrected, of: state.group, &state.result) else { return nil }
        var sharingTime = 0
        if let charging, let headAt = fold.headAt, clock.corrected <= headAt {
            sharingTime = fold.count(at: clock.corrected, max: RefoldCharges.sharingTimeMax)
            // If the refold for this event is already written, the event must be stored too. The rate limit permitted
            // the event before the refold, and is not asked again: meanwhile, other drivers of the same service may
            // have used it up.
            let isInserted = insertion(after: state.result.outcomes) != nil
            guard isInserted || charging.permitsRefold(request.claim, sharingTime: sharingTime) else {
                return .rateLimited
            }
        }
        let settings = settings(of: request, use, fold)
        let event = OrderedEvent(request, correctedAt: clock.corrected, settings: settings.settings)
        let unsaved = FoldedEvent.Unsaved(append: append, clock: clock, settingsVersion: settings.version)
        guard let added = add(event, unsaved, to: &fold, &state.result) else { return nil }
        let verdict = added.verdict
        state.result.settings[settings.version] = (settings, request.receivedAt)
        if case .unknown(let sessionID) = use { open(sessionID, at: request.receivedAt, &fold, &state.result) }
        fold.remember(clock.memory)
        let charged = added.refoldedCount + sharingTime
        if charged > 0 { state.result.charges.append((request.claim, charged)) }
        if charged >= RefoldCharges.rowsPerCharge, let charging, !charging.isUnlimited(request.claim) {
            state.result.isCharged = true
        }
        return .stored(
            StoredEvent(
                eventID: request.submission.eventID, verdict: verdict, journey: fold.journey,
                chargesRefold: charged >= RefoldCharges.rowsPerCharge))
    }

    /// Returns the settings that determine the event's time limits.
    func settings(of request: AppendRequest, _ use: SessionUse, _ fold: DriverFold) -> VersionedSettings {
        if request.chargerSettings.isEmpty { return request.settings }
        let choice = SettingsChoice(byCharger: request.chargerSettings, otherwise: request.settings)
        let registered: String? = if case .known(let session?) = use { session.registeredCharger } else { nil }
        return choice.settings(
            charger: fold.journey.settingsCharger(
                registered: registered, event: request.submission.chargerID, sessionID: request.submission.sessionID))
    }
}
