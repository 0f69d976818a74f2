// The pipeline of one event: admission, then the store, then a response. HTTP, SQL and Redis are behind ports.
//
// The order matters. A claim is charged before the store is called, so that a flood never reaches the disk. The
// charge of a repeat or a refused event is refunded afterwards. Redis does not know for certain which events are
// stored. So when the window is full, the event is looked up in the store before it is refused: a repeat always gets
// its response.

package import CoreMetrics
package import JourneyModel
package import RateLimiting

package struct Ingest: Sendable {
    private let store: any EventStore
    private let admission: any Admission
    private let settings: CurrentSettings
    /// `SESSION_REGISTRATION=required`.
    private let requiresRegisteredSession: Bool
    private let metrics: IngestMetrics

    package init(
        store: any EventStore, admission: any Admission, settings: CurrentSettings,
        requiresRegisteredSession: Bool = false, metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) {
        self.store = store
        self.admission = admission
        self.settings = settings
        self.requiresRegisteredSession = requiresRegisteredSession
        self.metrics = IngestMetrics(metrics)
    }

    /// Stores one event of one driver. Returns after the event is on disk, refused or failed.
    package nonisolated(nonsending) func ingest(
        _ submission: consuming EventSubmission, of driver: DriverID, receivedAt: Moment
    ) async -> Ingested {
        let name = submission.name
        let claim = Self.claim(for: submission, of: driver)
        let decision = await admission.admit(claim)
        metrics.count(claim.limitClass, decision.verdict)
        var outcome: EventOutcome
        var quota = decision.quota
        if decision.verdict == .refused {
            outcome = await lookUp(submission, of: driver)
        } else {
            outcome = await store.append(request(submission, of: driver, receivedAt: receivedAt))
            if settle(claim, decision.verdict, after: outcome) { quota = quota.refunding(1) }
            quota = current(quota, of: claim, after: outcome)
        }
        outcome = outcome.advanced(to: receivedAt)
        if !driver.isSimulated { metrics.count(name, outcome) }
        return Ingested(outcome: outcome, limitClass: claim.limitClass, quota: quota)
    }

    /// Stores a batch of events of one driver, in order. Each event is charged and answered as if it had been sent
    /// alone. An event for which the window is full is tried again if charges of other events of the batch were
    /// refunded, because those events were refused or were repeats.
    package func ingest(
        _ submissions: [EventSubmission], of driver: DriverID, receivedAt: Moment
    ) async -> [Ingested] {
        var round = await oneRound(submissions, of: driver, receivedAt: receivedAt)
        var answers = round.ingested
        // Ends, because each round has fewer events: an event whose charge was refunded is not tried again.
        while round.gaveBack {
            let refused = answers.indices.filter { answers[$0].outcome == .rateLimited }
            if refused.isEmpty { break }
            round = await oneRound(refused.map { submissions[$0] }, of: driver, receivedAt: receivedAt)
            for (index, ingested) in zip(refused, round.ingested) { answers[index] = ingested }
        }
        let refused = answers.indices.filter { answers[$0].outcome == .rateLimited }
        let found = await lookUp(refused.map { submissions[$0] }, of: driver)
        for (index, outcome) in zip(refused, found) { answers[index].outcome = outcome.advanced(to: receivedAt) }
        for (index, submission) in submissions.enumerated() {
            if !driver.isSimulated { metrics.count(submission.name, answers[index].outcome) }
        }
        return answers
    }

    /// Processes each event once. An event for which the window is full gets `.rateLimited` without a call of the
    /// store. `gaveBack` is true if any charge was refunded.
    private func oneRound(
        _ submissions: [EventSubmission], of driver: DriverID, receivedAt: Moment
    ) async -> (ingested: [Ingested], gaveBack: Bool) {
        let claims = submissions.map { Self.claim(for: $0, of: driver) }
        let decisions = await admission.admit(claims)
        let admitted = submissions.indices.filter { decisions[$0].verdict != .refused }
        let requests = admitted.map { request(submissions[$0], of: driver, receivedAt: receivedAt) }
        var outcomes = zip(admitted, await store.append(requests)).makeIterator()
        var next = outcomes.next()

        var ingested: [Ingested] = []
        ingested.reserveCapacity(submissions.count)
        var given: [RateLimitClass: Int] = [:]
        for index in submissions.indices {
            let (claim, decision) = (claims[index], decisions[index])
            metrics.count(claim.limitClass, decision.verdict)
            var outcome = EventOutcome.rateLimited
            if let (admittedIndex, appended) = next, admittedIndex == index {
                outcome = appended.advanced(to: receivedAt)
                // A refund for an event that the store rate-limits admits no other event, because the driver's refolds
                // have charged more than the limit.
                if settle(claim, decision.verdict, after: outcome), outcome != .rateLimited {
                    given[claim.limitClass, default: 0] += 1
                }
                next = outcomes.next()
            }
            var quota = decision.quota.refunding(given[claim.limitClass] ?? 0)
            if decision.verdict != .refused { quota = current(quota, of: claim, after: outcome) }
            ingested.append(Ingested(outcome: outcome, limitClass: claim.limitClass, quota: quota))
        }
        return (ingested, !given.isEmpty)
    }

    /// Returns the quota, read again when a refold was charged, or when the event was refused because of earlier
    /// refolds.
    private func current(_ quota: Quota, of claim: AdmissionClaim, after outcome: EventOutcome) -> Quota {
        switch outcome {
        case .stored(let event) where event.chargesRefold: admission.quota(of: claim.driver, in: claim.limitClass)
        case .rateLimited: admission.quota(of: claim.driver, in: claim.limitClass)
        case .stored, .replayed, .keyReused, .sessionNotFound, .failed: quota
        }
    }

    /// Returns a driver's quotas in both limits, for a request that is refused before any claim.
    package func quotas(of driver: DriverID) -> [(limitClass: RateLimitClass, quota: Quota)] {
        RateLimitClass.ofEvents.map { ($0, admission.quota(of: driver, in: $0)) }
    }

    private static func claim(for submission: EventSubmission, of driver: DriverID) -> AdmissionClaim {
        AdmissionClaim(
            driver: driver, hasSession: submission.sessionID != nil, idempotencyKey: submission.idempotencyKey)
    }

    private func request(
        _ submission: consuming EventSubmission, of driver: DriverID, receivedAt: Moment
    ) -> AppendRequest {
        AppendRequest(
            driver: driver, submission: submission, receivedAt: receivedAt, settings: settings.read(),
            requiresRegisteredSession: requiresRegisteredSession)
    }

    /// Returns the outcome for an event when the window is full: that of a repeat if it is stored, or `.rateLimited`.
    private func lookUp(_ submission: EventSubmission, of driver: DriverID) async -> EventOutcome {
        do {
            return try await store.lookUp(submission, of: driver) ?? .rateLimited
        } catch {
            return .failed(error)
        }
    }

    /// Returns the outcomes for several events when the window is full, with one read of the store.
    private func lookUp(_ submissions: [EventSubmission], of driver: DriverID) async -> [EventOutcome] {
        if submissions.isEmpty { return [] }
        do {
            return try await store.lookUp(submissions, of: driver).map { $0 ?? .rateLimited }
        } catch {
            return submissions.map { _ in .failed(error) }
        }
    }

    /// Corrects the charge of an event by its outcome. A stored event keeps its charge, and its key becomes known. An
    /// event whose commit may have failed keeps its charge too: its repeat has the same key and is free. Any other
    /// outcome is refunded.
    ///
    /// A key may be known because an earlier request with it was charged. A new event admitted for that reason is
    /// charged itself. Otherwise the earlier request could be refused and refunded, and with such requests a driver
    /// could store any number of events.
    ///
    /// - Returns: whether the charge was refunded.
    private func settle(
        _ claim: AdmissionClaim, _ verdict: AdmissionDecision.Verdict, after outcome: EventOutcome
    ) -> Bool {
        let isFree =
            switch outcome {
            // The store returns `.rateLimited` when earlier refolds have charged more than the limit.
            case .replayed, .keyReused, .sessionNotFound, .rateLimited, .failed(.unavailable), .failed(.cancelled),
                .failed(.driverErased):
                true
            case .stored, .failed(.unknown): false
            }
        let givesBack = isFree && verdict == .admitted
        if givesBack { admission.refund(claim) }
        switch outcome {
        case .stored:
            if verdict == .known { admission.forceCharge(claim) }
            admission.recordStored(claim, isRepeat: false)
        case .replayed: admission.recordStored(claim, isRepeat: true)
        case .keyReused, .sessionNotFound, .rateLimited, .failed: break
        }
        return givesBack
    }
}

/// The result of one event, with the values of the `RateLimit` fields.
package struct Ingested: Hashable, Sendable {
    package var outcome: EventOutcome
    package var limitClass: RateLimitClass
    package var quota: Quota

    package init(outcome: EventOutcome, limitClass: RateLimitClass, quota: Quota) {
        self.outcome = outcome
        self.limitClass = limitClass
        self.quota = quota
    }
}
