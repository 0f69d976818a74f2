// The pipeline of one event: admission, then the store, then a response. It knows neither HTTP, SQL nor Redis; they
// are behind the ports.
//
// The order matters. A claim is charged before the store is called, so that a flood never reaches the disk. What
// turns out to be free (a repeat, a refusal) is refunded afterwards. And because Redis does not know for certain
// what was stored, a full window consults the store before it refuses: a repeat always gets its response.

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

    /// Stores one event of one driver and returns once it is on disk.
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
            if settle(claim, decision.verdict, after: outcome) { quota = quota.withBack(1) }
            quota = current(quota, of: claim, after: outcome)
        }
        outcome = outcome.advanced(to: receivedAt)
        if !driver.isSimulated { metrics.count(name, outcome) }
        return Ingested(outcome: outcome, limitClass: claim.limitClass, quota: quota)
    }

    /// The same for a batch, in order: each event is charged and answered as if it had been sent alone. An event that
    /// finds the window full is retried when other events of the batch were refused, or were repeats, and their charges
    /// were refunded.
    package func ingest(
        _ submissions: [EventSubmission], of driver: DriverID, receivedAt: Moment
    ) async -> [Ingested] {
        var round = await oneRound(submissions, of: driver, receivedAt: receivedAt)
        var answers = round.ingested
        // An event whose charge was refunded has its result: each round has fewer events.
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

    /// Processes each event once. One that finds the window full gets `.rateLimited` without a call of the store.
    /// `gaveBack`: some charge was refunded.
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
                // The refund of an event that the store rate-limits is not offered to other events: the driver owes
                // more than that.
                if settle(claim, decision.verdict, after: outcome), outcome != .rateLimited {
                    given[claim.limitClass, default: 0] += 1
                }
                next = outcomes.next()
            }
            var quota = decision.quota.withBack(given[claim.limitClass] ?? 0)
            if decision.verdict != .refused { quota = current(quota, of: claim, after: outcome) }
            ingested.append(Ingested(outcome: outcome, limitClass: claim.limitClass, quota: quota))
        }
        return (ingested, !given.isEmpty)
    }

    /// Reads the quota again when a refold was charged, or the event was refused because of earlier refolds.
    private func current(_ quota: Quota, of claim: AdmissionClaim, after outcome: EventOutcome) -> Quota {
        switch outcome {
        case .stored(let event) where event.chargesRefold: admission.quota(of: claim.driver, in: claim.limitClass)
        case .rateLimited: admission.quota(of: claim.driver, in: claim.limitClass)
        case .stored, .replayed, .keyReused, .sessionNotFound, .failed: quota
        }
    }

    /// A driver's quotas in both limits, for a request that is refused before any claim.
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

    /// The window is full: only an event that is already stored gets its response.
    private func lookUp(_ submission: EventSubmission, of driver: DriverID) async -> EventOutcome {
        do {
            return try await store.lookUp(submission, of: driver) ?? .rateLimited
        } catch {
            return .failed(error)
        }
    }

    /// The same for several events, in one read of the store.
    private func lookUp(_ submissions: [EventSubmission], of driver: DriverID) async -> [EventOutcome] {
        if submissions.isEmpty { return [] }
        do {
            return try await store.lookUp(submissions, of: driver).map { $0 ?? .rateLimited }
        } catch {
            return submissions.map { _ in .failed(error) }
        }
    }

    /// A stored event keeps its charge and becomes a known key; anything else is refunded. An unknown commit keeps
    /// the charge: the repeat has the same key and is free.
    ///
    /// A new event that was admitted because its key was already charged is charged itself: the request that was
    /// charged may still be refused and refunded, and with such requests a driver could store any number of events.
    ///
    /// - Returns: whether the charge was refunded.
    private func settle(
        _ claim: AdmissionClaim, _ verdict: AdmissionDecision.Verdict, after outcome: EventOutcome
    ) -> Bool {
        let isFree =
            switch outcome {
            // Rate-limited by the store: earlier refolds have charged more than the limit.
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
