// Processes events: first the rate limit, then the store, then the response. HTTP, SQL and Redis are behind ports.
//
// An event counts against the rate limit of its sender, a driver or a service. To "charge" an event is to count it
// against this limit. To "refund" an event is to undo its charge.
//
// An event is charged before the store is called, so that a flood of events never reaches the disk. If the store
// refuses the event or has already stored it, the event is refunded.
//
// A repeat must always get its response, but the rate limiter does not know exactly which events are stored. An event
// over the rate limit is therefore looked up in the store before it is refused.

package import CoreMetrics
package import JourneyModel
package import RateLimiting

package struct Ingest: Sendable {
    private let store: any EventStore
    private let admission: any Admission
    private let settings: CurrentSettings
    /// Whether a session must be registered before its first event (`SESSION_REGISTRATION=required`).
    private let requiresRegisteredSession: Bool
    /// The sender that is stored with the events of apps. It is `.unconfirmedApp` if only a service may confirm
    /// activations and visits (`TRUSTED_CONFIRMATIONS=service`), and `.app` otherwise.
    private let appSender: OrderedEvent.Sender
    private let metrics: IngestMetrics

    package init(
        store: any EventStore, admission: any Admission, settings: CurrentSettings,
        requiresRegisteredSession: Bool = false, confirmsByServiceOnly: Bool = false,
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) {
        self.store = store
        self.admission = admission
        self.settings = settings
        self.requiresRegisteredSession = requiresRegisteredSession
        appSender = confirmsByServiceOnly ? .unconfirmedApp : .app
        self.metrics = IngestMetrics(metrics)
    }

    /// Whether rules depend on the app version. If false, callers need not pass the app version.
    package var dependsOnAppVersion: Bool { settings.readRules()?.dependsOnAppVersion ?? false }

    /// Stores one event of one driver. If the event is stored, returns after it is on disk.
    ///
    /// - Parameters:
    ///   - service: the service that sent the event; nil if the driver's app sent it.
    ///   - appVersion: the app version that the request names. Not needed if `dependsOnAppVersion` is false.
    package nonisolated(nonsending) func ingest(
        _ submission: consuming EventSubmission, of driver: DriverID, from service: DriverID? = nil,
        receivedAt: Moment, appVersion: AppVersion? = nil
    ) async -> Ingested {
        let (name, source) = (submission.name, EventSource(submission.source))
        let claim = AdmissionClaim.ofEvent(submission, of: driver, from: service)
        let decision = await admission.admit(claim)
        metrics.count(claim.limitClass, decision.verdict)
        var outcome: EventOutcome
        var quota = decision.quota
        if decision.verdict == .refused {
            outcome = await lookUp(submission, of: driver)
        } else {
            outcome = await store.append(
                request(submission, of: driver, from: service, receivedAt: receivedAt, appVersion))
            if settle(claim, decision.verdict, after: outcome) { quota = quota.refunding(1) }
            quota = current(quota, of: claim, after: outcome)
        }
        outcome = outcome.advanced(to: receivedAt)
        if !driver.isSimulated { metrics.count(name, source, outcome) }
        return Ingested(outcome: outcome, limitClass: claim.limitClass, quota: quota)
    }

    /// Stores the event that the server makes when a driver enters the right verification code. The event is trusted
    /// like a service's event, and is not charged. If it causes a refold, the refold counts against the driver's limit.
    package nonisolated(nonsending) func confirm(
        _ submission: EventSubmission, of driver: DriverID, receivedAt: Moment
    ) async -> EventOutcome {
        let choice = settings.choice(for: SettingsSubject(driver: driver, appVersion: nil, at: receivedAt))
        let outcome = await store.append(
            AppendRequest(
                driver: driver, submission: submission, receivedAt: receivedAt, settings: choice.otherwise,
                chargerSettings: choice.byCharger, sender: .service)
        ).advanced(to: receivedAt)
        if !driver.isSimulated { metrics.count(submission.name, EventSource(submission.source), outcome) }
        return outcome
    }

    /// Stores a batch of events in order. The sender is a driver's app, or a service that names the driver in each
    /// event. Each event is charged and answered as if it had been sent alone.
    ///
    /// Each refund in the batch gives a new attempt to the next event that was over the rate limit. An event for which
    /// the store itself returned `.rateLimited` gets no new attempt.
    package func ingest(
        _ submissions: [EventSubmission], from sender: EventSender, receivedAt: Moment, appVersion: AppVersion? = nil
    ) async -> [Ingested] {
        let batch = Batch(submissions, from: sender, receivedAt: receivedAt, appVersion: appVersion)
        let round = await oneRound(Array(submissions.indices), of: batch)
        var answers = round.ingested
        if round.verdicts.contains(.refused) { await retry(&answers, after: round, of: batch) }
        let refused = answers.indices.filter { answers[$0].outcome == .rateLimited }
        let found = await lookUp(refused.map { submissions[$0] }, from: sender)
        for (index, outcome) in zip(refused, found) { answers[index].outcome = outcome.advanced(to: receivedAt) }
        for (index, submission) in submissions.enumerated() {
            if !sender.driver(of: submission).isSimulated {
                metrics.count(submission.name, EventSource(submission.source), answers[index].outcome)
            }
        }
        return answers
    }

    private func retry(_ answers: inout [Ingested], after first: Round, of batch: Batch) async {
        var round = first
        var waiting = WaitingEvents(batch.claims, round.verdicts)
        for event in answers.indices where answers[event].outcome.isStored { waiting.recordStored(event) }
        var (open, quotas) = (round.refunded, [RateLimitClass: Quota]())
        // `open` has the number of refunds that no event has used yet. An event that is refunded in a round does not
        // wait again, so each round leaves fewer waiting events. The rate limiter makes at most about two decisions per
        // event.
        while case let events = waiting.take(open), !events.isEmpty {
            round = await oneRound(events, of: batch)
            let unused = waiting.settle(Dictionary(uniqueKeysWithValues: zip(events, round.verdicts)))
            for (event, ingested) in zip(events, round.ingested) {
                answers[event] = ingested
                if ingested.outcome.isStored { waiting.recordStored(event) }
            }
            open = round.refunded.merging(unused, uniquingKeysWith: +)
            quotas.merge(round.quotas) { _, newer in newer }
        }
        for (event, limitClass) in waiting.events {
            if let quota = quotas[limitClass] { answers[event].quota = quota }
        }
    }

    private struct Batch {
        var submissions: [EventSubmission]
        var claims: [AdmissionClaim]
        var sender: EventSender
        var receivedAt: Moment
        var appVersion: AppVersion?

        init(
            _ submissions: [EventSubmission], from sender: EventSender, receivedAt: Moment, appVersion: AppVersion?
        ) {
            self.submissions = submissions
            claims = submissions.map { AdmissionClaim.ofEvent($0, of: sender.driver(of: $0), from: sender.service) }
            self.sender = sender
            self.receivedAt = receivedAt
            self.appVersion = appVersion
        }
    }

    /// The results for some events of a batch, in the order of these events.
    private struct Round {
        var ingested: [Ingested] = []
        var verdicts: [AdmissionDecision.Verdict]
        /// The number of refunds that may admit another event.
        var refunded: [RateLimitClass: Int] = [:]
        /// The quotas after the round.
        var quotas: [RateLimitClass: Quota] = [:]
    }

    /// Processes some events of the batch. An event over the rate limit gets `.rateLimited`, without a call of the
    /// store.
    private func oneRound(_ events: [Int], of batch: Batch) async -> Round {
        let decisions = await admission.admit(events.map { batch.claims[$0] })
        let admitted = zip(events, decisions).filter { $0.1.verdict != .refused }.map(\.0)
        let requests = admitted.map { event in
            request(
                batch.submissions[event], of: batch.sender.driver(of: batch.submissions[event]),
                from: batch.sender.service, receivedAt: batch.receivedAt, batch.appVersion)
        }
        var outcomes = (requests.isEmpty ? [] : await store.append(requests)).makeIterator()

        var round = Round(verdicts: decisions.map(\.verdict))
        round.ingested.reserveCapacity(events.count)
        for (event, decision) in zip(events, decisions) {
            let claim = batch.claims[event]
            metrics.count(claim.limitClass, decision.verdict)
            var outcome = EventOutcome.rateLimited
            if decision.verdict != .refused, let appended = outcomes.next() {
                outcome = appended.advanced(to: batch.receivedAt)
                // If the store returned `.rateLimited`, the event is refunded, but no other event gets a new attempt.
                // Refolds have used up the limit, so the attempt would usually fail.
                if settle(claim, decision.verdict, after: outcome), outcome != .rateLimited {
                    round.refunded[claim.limitClass, default: 0] += 1
                }
            }
            var quota = decision.quota.refunding(round.refunded[claim.limitClass] ?? 0)
            if decision.verdict != .refused { quota = current(quota, of: claim, after: outcome) }
            round.quotas[claim.limitClass] = quota
            round.ingested.append(Ingested(outcome: outcome, limitClass: claim.limitClass, quota: quota))
        }
        return round
    }

    /// Returns the quota after `outcome`. If a refold may have used a part of `quota`, asks the rate limiter again.
    /// Otherwise returns `quota`.
    private func current(_ quota: Quota, of claim: AdmissionClaim, after outcome: EventOutcome) -> Quota {
        switch outcome {
        case .stored(let event) where event.chargesRefold: admission.quota(of: claim.driver, in: claim.limitClass)
        case .rateLimited: admission.quota(of: claim.driver, in: claim.limitClass)
        case .stored, .replayed, .keyReused, .sessionNotFound, .driverNotFound, .failed: quota
        }
    }

    /// Returns the driver's two quotas: events with a session and events without one have separate limits. A response
    /// contains both quotas if no event of its request was counted towards a limit.
    package func quotas(of driver: DriverID) -> [(limitClass: RateLimitClass, quota: Quota)] {
        RateLimitClass.ofEvents.map { ($0, admission.quota(of: driver, in: $0)) }
    }

    /// Returns the quota of one limit. `driver` is the id of a driver or of a service.
    package func quota(of driver: DriverID, in limitClass: RateLimitClass) -> Quota {
        admission.quota(of: driver, in: limitClass)
    }

    private func request(
        _ submission: consuming EventSubmission, of driver: DriverID, from service: DriverID?, receivedAt: Moment,
        _ appVersion: AppVersion?
    ) -> AppendRequest {
        // A service's request does not come from the driver's app, so an app version in the request is ignored.
        let subject = SettingsSubject(driver: driver, appVersion: service == nil ? appVersion : nil, at: receivedAt)
        let choice = settings.choice(for: subject)
        return AppendRequest(
            driver: driver, submission: submission, receivedAt: receivedAt, settings: choice.otherwise,
            chargerSettings: choice.byCharger, requiresRegisteredSession: requiresRegisteredSession,
            sender: service == nil ? appSender : .service, service: service)
    }

    /// Returns the stored outcome of an event that is over the rate limit. Returns `.rateLimited` if the event's
    /// idempotency key is not stored.
    private func lookUp(_ submission: EventSubmission, of driver: DriverID) async -> EventOutcome {
        do {
            return try await store.lookUp(submission, of: driver) ?? .rateLimited
        } catch {
            return .failed(error)
        }
    }

    /// Looks up the stored outcomes of events that are over the rate limit. Uses one read of the store for consecutive
    /// events of one driver.
    private func lookUp(_ submissions: [EventSubmission], from sender: EventSender) async -> [EventOutcome] {
        var outcomes: [EventOutcome] = []
        var rest = submissions[...]
        while let first = rest.first {
            let driver = sender.driver(of: first)
            let group = rest.prefix { sender.driver(of: $0) == driver }
            outcomes += await lookUp(Array(group), of: driver)
            rest = rest.dropFirst(group.count)
        }
        return outcomes
    }

    private func lookUp(_ submissions: [EventSubmission], of driver: DriverID) async -> [EventOutcome] {
        do {
            return try await store.lookUp(submissions, of: driver).map { $0 ?? .rateLimited }
        } catch {
            return submissions.map { _ in .failed(error) }
        }
    }

    /// Refunds an event or confirms its charge. A stored event stays charged, and the rate limiter records its
    /// idempotency key. All other charged events are refunded, except an event whose commit failed.
    ///
    /// After a failed commit, the event may or may not be on disk, so it stays charged. If it is on disk, a repeat
    /// costs nothing. If it is not on disk, the store stores the repeat as a new event, and the rule of the next
    /// paragraph charges the repeat.
    ///
    /// The rate limiter does not charge an event if it has already charged a request with the same idempotency key. If
    /// the store does not know this key, it stores the event as new, and this method charges the event.
    ///
    /// Without this charge, a driver could store an event for free with two requests that have the same key. The rate
    /// limiter charges the first request, and therefore admits the second one without a charge. If the store refuses
    /// the first request, its charge is refunded, and neither request is charged.
    ///
    /// - Returns: whether the event was refunded.
    private func settle(
        _ claim: AdmissionClaim, _ verdict: AdmissionDecision.Verdict, after outcome: EventOutcome
    ) -> Bool {
        let isFree =
            switch outcome {
            // The store returns `.rateLimited` if `RefoldCharging` does not permit the event's refold.
            case .replayed, .keyReused, .sessionNotFound, .driverNotFound, .rateLimited, .failed(.unavailable),
                .failed(.cancelled),
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
        case .keyReused, .sessionNotFound, .driverNotFound, .rateLimited, .failed: break
        }
        return givesBack
    }
}

/// Who sent an event. An app sends events only for its own driver. A service names the driver in each event.
package enum EventSender: Hashable, Sendable {
    case driver(DriverID)
    case service(DriverID)

    package var service: DriverID? {
        if case .service(let service) = self { service } else { nil }
    }

    package func driver(of submission: EventSubmission) -> DriverID {
        switch self {
        case .driver(let driver): driver
        case .service: DriverID(submission.driverID ?? "")
        }
    }
}

/// The outcome of one event, with the values of the `RateLimit` fields.
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
