// Tests of batches that exceed the rate limit. If a charge is refunded, a refused event of the batch can use it. The
// outcomes must equal those of `decideAgain`, a simpler algorithm.

import JourneyModel
import RateLimiting
import Synchronization
import TestSupport
import Testing

@testable import Engine

struct BatchRetryTests {
    private static let now = Moment.sample.advanced(bySeconds: 3600)
    private static let settings = VersionedSettings(settings: Settings(), version: "v1")
    private static let ann = DriverID("ann")

    private static func ingest(_ store: any EventStore, _ admission: any Admission) -> Ingest {
        Ingest(store: store, admission: admission, settings: CurrentSettings(settings))
    }

    private static func limiter(_ limits: RateLimits) -> LocalRateLimiter {
        LocalRateLimiter(limits: limits, clock: { 0 })
    }

    /// The store rejects every event of the batch, because the session belongs to another driver. Each rejection
    /// refunds the event's charge. The one free charge therefore passes from event to event.
    @Test func `a batch with one place left decides about each event twice at most`() async {
        let admission = CountingAdmission(Self.limiter(RateLimits()))
        let store = MemoryEventStore()
        _ = await store.append(.sample(.sample(.sessionRestored, key: "k", session: "theirs"), of: DriverID("bob")))
        let ingest = Self.ingest(store, admission)
        for number in 0..<59 {
            let stored = await ingest.ingest(
                .sample(.sessionRestored, key: "stored \(number)", session: "mine"), of: Self.ann, receivedAt: Self.now)
            #expect(stored.quota.remaining == 59 - number)
        }
        let before = admission.decisionCount
        let answers = await ingest.ingest(
            (0..<500).map { .sample(.sessionRestored, key: "k\($0)", session: "theirs") }, from: .driver(Self.ann),
            receivedAt: Self.now)
        #expect(answers.allSatisfy { $0.outcome == .sessionNotFound })
        #expect(answers.last?.quota.remaining == 1)
        #expect(admission.decisionCount - before <= 1000)
    }

    /// The store rejects the event "b", so its charge is refunded. The second event with the key "a" needs no charge,
    /// because that key is already stored. The charge therefore goes to the event "c".
    @Test func `a place that a known event does not need goes to the next event`() async {
        let admission = Self.limiter(RateLimits(sessionEvents: 5, preSessionEvents: 1))
        let answers = await Self.ingest(PickyStore(MemoryEventStore(), admission), admission).ingest(
            [
                .sample(.sessionRestored, key: "a", session: "mine"),
                .sample(.chargerTargeted, key: "b", charger: "foreign"), .sample(.chargerTargeted, key: "a"),
                .sample(.chargerTargeted, key: "c"), .sample(.chargerTargeted, key: "d"),
            ], from: .driver(Self.ann), receivedAt: Self.now
        ).map(\.outcome.kind)
        #expect(answers == ["stored", "sessionNotFound", "keyReused", "stored", "rateLimited"])
    }

    /// The charger of some events in a batch (see `PickyStore`). No batch has both `late` and `refold`, because
    /// `PickyStore` does not record what a driver owes after a refold. The server's store rejects late events until
    /// this debt is paid.
    private enum Mix: String, CaseIterable {
        case plain = "c"
        case late
        case refold
    }

    @Test(arguments: Mix.allCases)
    private func `outcomes are those of deciding about all refused events again`(mix: Mix) async {
        var seeds = SystemRandomNumberGenerator()
        for _ in 0..<200 { await compare(seeds.next(), mix) }
    }

    private func compare(_ seed: UInt64, _ mix: Mix) async {
        var random = SeededRandom(seed: seed)
        let limits = RateLimits(
            sessionEvents: .random(in: 1...6, using: &random), preSessionEvents: .random(in: 1...4, using: &random),
            serviceEvents: .random(in: 1...6, using: &random))
        let sender: EventSender = random.chance(1, in: 4) ? .service(DriverID("svc")) : .driver(Self.ann)
        let batches = (0..<3).map { _ in
            (0..<Int.random(in: 1...30, using: &random)).map { _ in
                Self.randomSubmission(mix, sender, using: &random)
            }
        }
        let answers = await answers(to: batches, from: sender, limits) { store, admission, batch in
            await Self.ingest(store, admission).ingest(batch, from: sender, receivedAt: Self.now)
        }
        let expected = await self.answers(to: batches, from: sender, limits) { store, admission, batch in
            await decideAgain(batch, from: sender, store, admission)
        }
        #expect(answers.map(\.outcome) == expected.map(\.outcome), "seed \(seed)")
        guard mix == .plain else { return }
        // If an event's key is already stored, the event's quota depends on when `Ingest` finds the key. Such quotas
        // are not compared.
        for (answer, expected) in zip(answers, expected) {
            if ["keyReused", "replayed"].contains(answer.outcome.kind) { continue }
            #expect(answer.quota == expected.quota, "seed \(seed), \(answer.outcome.kind)")
        }
    }

    /// All batches share one new store and one new limiter.
    private func answers(
        to batches: [[EventSubmission]], from sender: EventSender, _ limits: RateLimits,
        _ ingest: (PickyStore, LocalRateLimiter, [EventSubmission]) async -> [Ingested]
    ) async -> [Ingested] {
        let admission = Self.limiter(limits)
        let store = PickyStore(MemoryEventStore(), admission)
        _ = await store.append(.sample(.sample(.sessionRestored, key: "b", session: "theirs"), of: DriverID("bob")))
        _ = await store.append(.sample(.sample(.sessionRestored, key: "c", session: "mine"), of: Self.ann))
        var answers: [Ingested] = []
        for batch in batches { answers += await ingest(store, admission, batch) }
        return answers
    }

    private static func randomSubmission(
        _ mix: Mix, _ sender: EventSender, using random: inout SeededRandom
    ) -> EventSubmission {
        let session = [nil, "mine", "theirs", "theirs"].randomPick(&random)
        let charger = [nil, nil, "c", "foreign", mix.rawValue].randomPick(&random)
        // `decideAgain` tries rejected late events again in each round. If such an event had a stored key, it would use
        // another event's charge. In batches with late events, all keys are therefore random.
        let key = mix == .late ? String(random.next(), radix: 36) : "k\(Int.random(in: 0..<14, using: &random))"
        var submission = EventSubmission.sample(
            session == nil ? .chargerTargeted : .sessionRestored, key: key, session: session, charger: charger)
        if sender.service != nil { submission.driverID = ["ann", "bob", "unknown"].randomPick(&random) }
        return submission
    }

    /// The simpler algorithm: each round decides about all refused events again. If a round refunds no charge of a
    /// rejected event, no other event can be admitted, so the rounds end.
    private func decideAgain(
        _ batch: [EventSubmission], from sender: EventSender, _ store: PickyStore, _ admission: LocalRateLimiter
    ) async -> [Ingested] {
        let requests = batch.map { submission in
            AppendRequest(
                driver: sender.driver(of: submission), submission: submission, receivedAt: Self.now,
                settings: Self.settings, sender: sender.service == nil ? .app : .service, service: sender.service)
        }
        var answers: [Ingested?] = requests.map { _ in nil }
        var refused = Array(requests.indices)
        var isRefunded = true
        while isRefunded, !refused.isEmpty {
            isRefunded = false
            var refunded: [RateLimitClass: Int] = [:]
            let decisions = refused.map { admission.decide(requests[$0].claim) }
            var outcomes: [Int: EventOutcome] = [:]
            for (index, decision) in zip(refused, decisions) where decision.verdict != .refused {
                outcomes[index] = await store.append(requests[index])
            }
            for (index, decision) in zip(refused, decisions) {
                let claim = requests[index].claim
                let outcome = outcomes[index] ?? .rateLimited
                var quotaIsCurrent = outcomes[index] == .rateLimited
                switch (outcome, decision.verdict) {
                case (.stored(let event), let verdict):
                    quotaIsCurrent = event.chargesRefold
                    if verdict == .known { admission.forceCharge(claim) }
                    admission.recordStored(claim)
                case (.rateLimited, .admitted): admission.refund(claim)
                case (_, .admitted):
                    admission.refund(claim)
                    refunded[claim.limitClass, default: 0] += 1
                    isRefunded = true
                default: break
                }
                if case .replayed = outcome { admission.recordStored(claim) }
                var quota = decision.quota.refunding(refunded[claim.limitClass] ?? 0)
                if quotaIsCurrent { quota = admission.quota(of: claim.driver, in: claim.limitClass) }
                answers[index] = Ingested(outcome: outcome, limitClass: claim.limitClass, quota: quota)
            }
            refused = refused.filter { answers[$0]?.outcome == .rateLimited }
        }
        for index in refused {
            if let known = try? await store.lookUp(requests[index].submission, of: requests[index].driver) {
                answers[index]?.outcome = known
            }
        }
        return answers.compactMap { $0 }
    }
}

/// A limiter that counts its decisions.
private final class CountingAdmission: Admission {
    private let limiter: LocalRateLimiter
    private let decisions = Mutex(0)

    init(_ limiter: LocalRateLimiter) { self.limiter = limiter }

    var decisionCount: Int { decisions.withLock { $0 } }

    func admit(_ claim: AdmissionClaim) async -> AdmissionDecision {
        decisions.withLock { $0 += 1 }
        return limiter.decide(claim)
    }

    func quota(of driver: DriverID, in limitClass: RateLimitClass) -> Quota {
        limiter.quota(of: driver, in: limitClass)
    }

    func recordStored(_ claim: AdmissionClaim, isRepeat: Bool) { limiter.recordStored(claim, isRepeat: isRepeat) }
    func forceCharge(_ claim: AdmissionClaim) { limiter.forceCharge(claim) }
    func refund(_ claim: AdmissionClaim) { limiter.refund(claim) }
    func charge(_ claim: AdmissionClaim, times: Int) { limiter.charge(claim, times: times) }

    func isOverdrawn(by driver: DriverID, in limitClass: RateLimitClass) -> Bool {
        limiter.isOverdrawn(by: driver, in: limitClass)
    }
}

/// A store in memory with special behaviour for three chargers:
///
/// - An event at `late` is rejected because of the rate limit.
/// - An event at `foreign` is rejected like an event of another driver's session.
/// - When an event at `refold` is stored, two more events are charged.
private final class PickyStore: EventStore {
    private let events: MemoryEventStore
    private let admission: LocalRateLimiter

    init(_ events: MemoryEventStore, _ admission: LocalRateLimiter) {
        (self.events, self.admission) = (events, admission)
    }

    func append(_ request: AppendRequest) async -> EventOutcome {
        do throws(StoreFailure) {
            if let known = try await events.lookUp(request.submission, of: request.driver) { return known }
        } catch {
            return .failed(error)
        }
        switch request.submission.chargerID {
        case "late": return .rateLimited
        case "foreign": return .sessionNotFound
        default: break
        }
        let outcome = await events.append(request)
        guard request.submission.chargerID == "refold", case .stored(var event) = outcome else { return outcome }
        admission.charge(request.claim, times: 2)
        event.chargesRefold = true
        return .stored(event)
    }

    func append(_ requests: [AppendRequest]) async -> [EventOutcome] {
        var outcomes: [EventOutcome] = []
        for request in requests { outcomes.append(await append(request)) }
        return outcomes
    }

    func lookUp(_ submission: EventSubmission, of driver: DriverID) async throws(StoreFailure) -> EventOutcome? {
        try await events.lookUp(submission, of: driver)
    }

    func lookUp(
        _ submissions: [EventSubmission], of driver: DriverID
    ) async throws(StoreFailure) -> [EventOutcome?] {
        try await events.lookUp(submissions, of: driver)
    }

    func register(_ registration: SessionRegistration) async throws(StoreFailure) -> RegistrationOutcome {
        try await events.register(registration)
    }
}

extension EventOutcome {
    fileprivate var kind: String {
        switch self {
        case .stored: "stored"
        case .replayed: "replayed"
        case .keyReused: "keyReused"
        case .sessionNotFound: "sessionNotFound"
        case .driverNotFound: "driverNotFound"
        case .rateLimited: "rateLimited"
        case .failed: "failed"
        }
    }
}
