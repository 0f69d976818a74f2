// Tests the limiter of one process against section 4 of the contract and the doc comments of the protocol `Admission`.
// The clock is manual. The last test compares random traces with a simple reference implementation.

import JourneyModel
import RateLimiting
import Synchronization
import TestSupport
import Testing

private final class HandClock: Sendable {
    private let milliseconds = Mutex<Int64>(0)

    var now: Int64 {
        get { milliseconds.withLock { $0 } }
        set { milliseconds.withLock { $0 = newValue } }
    }

    func advance(byMilliseconds step: Int64) { milliseconds.withLock { $0 += step } }
}

struct LocalRateLimiterTests {
    private let clock = HandClock()

    private func admission(_ limits: RateLimits, _ capacity: LocalRateLimiter.Capacity = .init())
        -> LocalRateLimiter
    {
        LocalRateLimiter(limits: limits, capacity: capacity, clock: { [clock] in clock.now })
    }

    @Test func standingChargesNothing() async {
        let admission = LocalRateLimiter(limits: RateLimits(sessionEvents: 2), clock: { 1000 })
        let driver = DriverID("d")
        _ = await admission.admit(AdmissionClaim(driver: driver, limitClass: .sessionEvents, idempotencyKey: "k"))
        for _ in 0..<5 { #expect(admission.quota(of: driver, in: .sessionEvents).remaining == 1) }
        #expect(admission.quota(of: DriverID("other"), in: .sessionEvents).remaining == 2)
        #expect(admission.quota(of: driver, in: .preSessionEvents).remaining == 30)
    }

    @Test func sixtyPerMinuteAndTheNextOneWaitsForTheOldest() async {
        let admission = admission(RateLimits())
        for number in 0..<60 {
            let decision = await admission.admit(claim("k\(number)"))
            #expect(decision.verdict == .admitted)
            #expect(decision.quota.remaining == 59 - number)
            clock.advance(byMilliseconds: 100)
        }
        let refused = await admission.admit(claim("one more"))
        #expect(refused.verdict == .refused)
        #expect(refused.quota == Quota(limit: 60, windowSeconds: 60, remaining: 0, resetMilliseconds: 54_000))

        clock.advance(byMilliseconds: 53_999)
        #expect(await admission.admit(claim("one more")).verdict == .refused)
        clock.advance(byMilliseconds: 1)
        #expect(await admission.admit(claim("one more")).verdict == .admitted)
        #expect(await admission.admit(claim("and another")).verdict == .refused)
    }

    @Test func whatIsChargedBeyondTheLimitExpiresAtItsRate() async {
        let admission = admission(RateLimits(sessionEvents: 60))
        #expect(await admission.admit(claim("late")).verdict == .admitted)
        admission.charge(claim("late"), times: 119)
        let driver = DriverID("ann")
        #expect(admission.quota(of: driver, in: .sessionEvents).remaining == 0)
        #expect(admission.quota(of: driver, in: .sessionEvents).resetMilliseconds == 60_000 + 1_000)
        // The event was charged 120 times, with a limit of 60. When the clock advances by one window, the first sixty
        // charges expire. The other sixty still fill the window, and then expire one per second.
        clock.advance(byMilliseconds: 60_000)
        #expect(admission.quota(of: driver, in: .sessionEvents).remaining == 0)
        clock.advance(byMilliseconds: 1_000)
        #expect(await admission.admit(claim("one")).verdict == .admitted)
        #expect(await admission.admit(claim("two")).verdict == .refused)
        #expect(admission.quota(of: driver, in: .preSessionEvents).remaining == 30)
    }

    @Test func aDebtOfManyWindowsIsNotForgottenAfterASilence() async {
        let admission = admission(RateLimits(sessionEvents: 60))
        admission.charge(claim("late"), times: 1200)
        for _ in 0..<9 {
            clock.advance(byMilliseconds: 61_000)
            // A request of another driver makes the limiter drop the windows that were unused for a long time.
            _ = await admission.admit(claim("other", of: "bob"))
        }
        #expect(await admission.admit(claim("next")).verdict == .refused)
        clock.advance(byMilliseconds: 12 * 60_000)
        #expect(await admission.admit(claim("next")).verdict == .admitted)
    }

    @Test func aDebtHasABound() async {
        let admission = admission(RateLimits(sessionEvents: 60))
        for key in 0..<3 { admission.charge(claim("late \(key)"), times: 100_000) }
        let reset = admission.quota(of: DriverID("ann"), in: .sessionEvents).resetMilliseconds
        #expect(reset == Int64(RateLimits.overdraftMax + 1) * 1_000)
    }

    @Test func oneCallFillsTheWindowOfRefusalsAtMost() {
        let admission = admission(RateLimits())
        let driver = DriverID("ann")
        admission.charge(claim("a", .refusals), times: 599)
        #expect(!admission.quota(of: driver, in: .refusals).isExhausted)
        admission.charge(claim("b", of: "bob", .refusals), times: 100_000)
        #expect(
            admission.quota(of: DriverID("bob"), in: .refusals)
                == Quota(limit: 600, windowSeconds: 60, remaining: 0, resetMilliseconds: 60_000))
        // Several calls may charge beyond the limit.
        admission.charge(claim("c", of: "bob", .refusals), times: 600)
        #expect(admission.quota(of: DriverID("bob"), in: .refusals).resetMilliseconds == 60_100)
    }

    @Test(arguments: [
        (RateLimits(), 600), (RateLimits(sessionEvents: 100), 1000),
        (RateLimits(sessionEvents: 0), 600), (RateLimits(preSessionEvents: 0), 600),
        (RateLimits(sessionEvents: 0, preSessionEvents: 0), 0),
    ])
    func refusalsAreLimitedWhileAnyDriversEventsAre(limits: RateLimits, limit: Int) {
        #expect(limits.limit(of: .refusals) == limit)
    }

    @Test func nothingIsCountedUnderTheIDOfADeletedDriver() async {
        let admission = admission(RateLimits(sessionEvents: 1))
        for driver in ["ann", "bob"] {
            #expect(await admission.admit(claim("a", of: driver)).verdict == .admitted)
            admission.charge(claim("r", of: driver, .refusals), times: 5)
        }
        await admission.forget(DriverID("ann"))
        for limitClass in RateLimitClass.ofDrivers {
            let quota = admission.quota(of: DriverID("ann"), in: limitClass)
            #expect(quota.remaining == quota.limit)
        }
        #expect(admission.quota(of: DriverID("bob"), in: .sessionEvents).remaining == 0)
        #expect(admission.quota(of: DriverID("bob"), in: .refusals).remaining == 595)
    }

    @Test func aWindowThatAnotherLimiterFoundFullIsReportedAsFull() async {
        let admission = admission(RateLimits())
        let driver = DriverID("ann")
        func quota() -> Quota { admission.quota(of: driver, in: .refusals) }
        admission.recordFull(driver, in: .refusals, until: 5000)
        #expect(quota().remaining == 600, "without a charge here, nothing is known about the driver")
        admission.charge(claim("a", .refusals), times: 1)
        admission.recordFull(driver, in: .refusals, until: 5000)
        admission.recordFull(driver, in: .refusals, until: 4000)
        #expect(quota() == Quota(limit: 600, windowSeconds: 60, remaining: 0, resetMilliseconds: 5000))
        clock.now = 4999
        #expect(quota().isExhausted)
        clock.now = 5000
        #expect(quota().remaining == 599)
        // Another limiter reports that the window is full until 6000. In this process the window is full for longer, so
        // the later time counts.
        admission.charge(claim("b", .refusals), times: 600)
        admission.recordFull(driver, in: .refusals, until: 6000)
        #expect(quota().resetMilliseconds > 50_000)
        // A refund makes room.
        #expect(await admission.admit(claim("c")).verdict == .admitted)
        admission.recordFull(driver, in: .sessionEvents, until: 60_000)
        #expect(admission.quota(of: driver, in: .sessionEvents).isExhausted)
        admission.refund(claim("c"))
        #expect(admission.quota(of: driver, in: .sessionEvents).remaining == 60)
    }

    @Test func classesAndDriversHaveWindowsOfTheirOwn() async {
        let admission = admission(RateLimits(sessionEvents: 1, preSessionEvents: 1))
        #expect(await admission.admit(claim("a")).verdict == .admitted)
        #expect(await admission.admit(claim("b")).verdict == .refused)
        #expect(await admission.admit(claim("b", .preSessionEvents)).verdict == .admitted)
        #expect(await admission.admit(claim("b", of: "bob")).verdict == .admitted)
    }

    @Test func keyInTheWindowIsKnownAndCostsNothingMore() async {
        let admission = admission(RateLimits(sessionEvents: 2))
        #expect(await admission.admit(claim("a")).verdict == .admitted)
        for _ in 0..<5 {
            let again = await admission.admit(claim("a"))
            #expect(again.verdict == .known)
            #expect(again.quota.remaining == 1)
        }
        #expect(await admission.admit(claim("b")).verdict == .admitted)
        #expect(await admission.admit(claim("a")).verdict == .known, "also in a full window")
    }

    @Test func storedKeyStaysKnownAfterItsChargeHasLeft() async {
        let admission = admission(RateLimits(sessionEvents: 1))
        #expect(await admission.admit(claim("a")).verdict == .admitted)
        admission.recordStored(claim("a"))
        clock.advance(byMilliseconds: 3_600_000)
        let later = await admission.admit(claim("a"))
        #expect(later.verdict == .known)
        #expect(later.quota == Quota(limit: 1, windowSeconds: 60, remaining: 1, resetMilliseconds: 0))
        #expect(await admission.admit(claim("b")).verdict == .admitted)
        #expect(await admission.admit(claim("a")).verdict == .known)
        #expect(await admission.admit(claim("a", of: "bob")).verdict == .admitted, "keys are scoped to the driver")
    }

    @Test(arguments: [true, false]) func refundLeavesWhatWasChargedAfterwards(comesFirst: Bool) async {
        let admission = admission(RateLimits(sessionEvents: 2))
        #expect(await admission.admit(claim("a")).verdict == .admitted)
        if comesFirst { admission.refund(claim("a")) }
        admission.forceCharge(claim("a"))
        if !comesFirst { admission.refund(claim("a")) }
        #expect(await admission.admit(claim("b")).quota.remaining == 0)
        #expect(await admission.admit(claim("c")).verdict == .refused)
        admission.forceCharge(claim("b"))
        #expect(await admission.admit(claim("c")).quota.remaining == 0, "beyond the limit too")
        clock.advance(byMilliseconds: 60_000)
        #expect(await admission.admit(claim("d")).quota.remaining == 1)
    }

    @Test func refundMakesRoom() async {
        let admission = admission(RateLimits(sessionEvents: 1))
        #expect(await admission.admit(claim("a")).verdict == .admitted)
        #expect(await admission.admit(claim("b")).verdict == .refused)
        admission.refund(claim("a"))
        admission.refund(claim("a"))
        #expect(await admission.admit(claim("b")).verdict == .admitted)
    }

    @Test func refusedClaimIsNotCharged() async {
        let admission = admission(RateLimits(sessionEvents: 1, windowSeconds: 1))
        #expect(await admission.admit(claim("a")).verdict == .admitted)
        clock.now = 999
        #expect(await admission.admit(claim("b")).verdict == .refused)
        clock.now = 1000
        #expect(await admission.admit(claim("c")).verdict == .admitted)
        #expect(await admission.admit(claim("d")).quota.resetMilliseconds == 1000)
    }

    @Test func batchTakesWhatIsLeftInOrder() async {
        let admission = admission(RateLimits(sessionEvents: 3))
        let verdicts = await admission.admit(["a", "b", "a", "c", "d", "a"].map { claim($0) }).map(\.verdict)
        #expect(verdicts == [.admitted, .admitted, .known, .admitted, .refused, .known])
    }

    @Test(arguments: [0, -1]) func limitThatIsOffAdmitsAlways(limit: Int) async {
        let admission = admission(RateLimits(sessionEvents: limit, preSessionEvents: 1))
        for number in 0..<100 {
            let decision = await admission.admit(claim("k\(number % 3)"))
            #expect(decision.verdict == .admitted)
            #expect(decision.quota == Quota(limit: 0, windowSeconds: 60, remaining: 0, resetMilliseconds: 0))
        }
        #expect(await admission.admit(claim("p", .preSessionEvents)).quota.remaining == 0)
    }

    @Test(arguments: [Int.min, -5, 0, Int.max]) func oddWindowLengthsDoNotTrap(windowSeconds: Int) async {
        let admission = admission(RateLimits(sessionEvents: 1, windowSeconds: windowSeconds))
        clock.now = 1_800_000_000_000
        #expect(await admission.admit(claim("a")).verdict == .admitted)
        #expect(await admission.admit(claim("b")).verdict == .refused)
    }

    @Test func clockThatGoesBackForgetsNothing() async {
        let admission = admission(RateLimits(sessionEvents: 1))
        clock.now = 1_000_000
        #expect(await admission.admit(claim("a")).verdict == .admitted)
        clock.now = 0
        let decision = await admission.admit(claim("b"))
        #expect(decision.verdict == .refused)
        #expect(decision.quota.resetMilliseconds == 60_000)
    }

    /// Thousands of drivers use a limiter that has memory for only a few windows. No driver is rejected below the
    /// limit. The window of a driver that sends constantly is never dropped.
    @Test func evictionErrsTowardsTheDriver() async {
        var capacity = LocalRateLimiter.Capacity()
        capacity.windowsMax = 80
        capacity.knownKeysMax = 80
        let admission = admission(RateLimits(sessionEvents: 1), capacity)
        #expect(await admission.admit(claim("a", of: "regular")).verdict == .admitted)
        for number in 0..<2000 {
            #expect(await admission.admit(claim("a", of: "driver \(number)")).verdict == .admitted)
            admission.recordStored(claim("a", of: "driver \(number)"))
            #expect(await admission.admit(claim("b", of: "regular")).verdict == .refused)
        }
        #expect(await admission.admit(claim("b", of: "driver 0")).verdict == .admitted)
    }

    @Test func concurrentClaimsNeverExceedTheLimit() async {
        let admission = admission(RateLimits(sessionEvents: 50))
        let admitted = await withTaskGroup(of: Int.self) { group in
            for task in 0..<8 {
                group.addTask {
                    var admitted = 0
                    for number in 0..<100 where admission.decide(claim("\(task)/\(number)")).verdict == .admitted {
                        admitted += 1
                    }
                    return admitted
                }
            }
            return await group.reduce(0, +)
        }
        #expect(admitted == 50)
    }
}

/// Tests of `reconcile`, which repeats the decisions of Redis in this process and corrects them.
struct CountingAlongTests {
    private let clock = HandClock()

    private func admission(_ limits: RateLimits) -> LocalRateLimiter {
        LocalRateLimiter(limits: limits, clock: { [clock] in clock.now })
    }

    private func elsewhere(_ verdict: AdmissionDecision.Verdict, remaining: Int, resetMilliseconds: Int64 = 60_000)
        -> AdmissionDecision
    {
        AdmissionDecision(
            verdict: verdict,
            quota: Quota(limit: 2, windowSeconds: 60, remaining: remaining, resetMilliseconds: resetMilliseconds))
    }

    @Test func whatTheOtherOneChargedIsChargedHere() {
        let admission = admission(RateLimits(sessionEvents: 2))
        let first = admission.reconcile(claim("a"), with: elsewhere(.admitted, remaining: 1), askedAt: 0)
        #expect(first == ReconciledCount(decision: elsewhere(.admitted, remaining: 1), keepsCharge: true))
        _ = admission.reconcile(claim("b"), with: elsewhere(.admitted, remaining: 0), askedAt: 0)
        #expect(admission.decide(claim("c")).verdict == .refused)
        #expect(admission.decide(claim("a")).verdict == .known)
    }

    @Test func chargesAreKeptUnderTheTimeOfAsking() {
        let admission = admission(RateLimits(sessionEvents: 1))
        clock.now = 50
        _ = admission.reconcile(claim("a"), with: elsewhere(.admitted, remaining: 0), askedAt: 10)
        clock.now = 60_009
        #expect(admission.decide(claim("b")).verdict == .refused)
        clock.now = 60_010
        #expect(admission.decide(claim("b")).verdict == .admitted)
    }

    /// Redis was restarted empty, so it admits a driver who is over the limit by this process's charges. `reconcile`
    /// rejects the claim.
    @Test func forgottenChargesAreRemembered() {
        let admission = admission(RateLimits(sessionEvents: 2))
        _ = admission.decide(claim("a"))
        _ = admission.decide(claim("b"))
        clock.now = 5000
        let third = admission.reconcile(claim("c"), with: elsewhere(.admitted, remaining: 1), askedAt: 5000)
        #expect(third.decision.verdict == .refused)
        #expect(third.decision.quota == Quota(limit: 2, windowSeconds: 60, remaining: 0, resetMilliseconds: 55_000))
        #expect(!third.keepsCharge)
    }

    @Test func forgottenChargesShowInTheFigures() {
        let admission = admission(RateLimits(sessionEvents: 3))
        _ = admission.decide(claim("a"))
        clock.now = 5000
        let second = admission.reconcile(claim("b"), with: elsewhere(.admitted, remaining: 2), askedAt: 5000)
        #expect(second.decision.verdict == .admitted)
        #expect(second.decision.quota.remaining == 1)
        #expect(second.decision.quota.resetMilliseconds == 55_000)
    }

    /// Shortly before a charge expires, Redis and this process may disagree whether it has expired. The decision of
    /// Redis counts.
    @Test func chargesAboutToLeaveDoNotOverrule() {
        let admission = admission(RateLimits(sessionEvents: 1))
        _ = admission.decide(claim("a"))
        clock.now = 59_500
        let next = admission.reconcile(claim("b"), with: elsewhere(.admitted, remaining: 0), askedAt: 59_500)
        #expect(next.decision.verdict == .admitted)
        #expect(next.keepsCharge)
        #expect(admission.decide(claim("c")).verdict == .refused)
        #expect(admission.decide(claim("a")).verdict == .refused, "never more keys than the limit")
    }

    /// An event was charged in this process while Redis was unavailable. When the event is sent again, Redis charges it
    /// as new, and this charge is kept. The verdict becomes `known`, because this process still has the event's key.
    @Test func keyChargedHereBeforeIsKnown() {
        let admission = admission(RateLimits(sessionEvents: 2))
        _ = admission.decide(claim("a"))
        let again = admission.reconcile(claim("a"), with: elsewhere(.admitted, remaining: 1), askedAt: 0)
        #expect(again == ReconciledCount(decision: elsewhere(.known, remaining: 1), keepsCharge: true))
    }

    @Test func keyStoredHereBeforeIsKnownAndTheChargeThereIsTakenBack() {
        let admission = admission(RateLimits(sessionEvents: 2))
        admission.recordStored(claim("a"))
        let again = admission.reconcile(claim("a"), with: elsewhere(.admitted, remaining: 1), askedAt: 0)
        #expect(again.decision == elsewhere(.known, remaining: 2, resetMilliseconds: 0))
        #expect(!again.keepsCharge)
        #expect(
            admission.reconcile(claim("a"), with: elsewhere(.refused, remaining: 0), askedAt: 0).decision.verdict
                == .known)
    }
}

/// The simplest correct implementation: a list of all charges ever made, filtered for each claim.
private struct Reference {
    let limits: RateLimits
    var charges: [(claim: AdmissionClaim, time: Int64)] = []
    var stored: Set<String> = []

    mutating func admit(_ claim: AdmissionClaim, at now: Int64) -> AdmissionDecision {
        let limit = limits.limit(of: claim.limitClass)
        var window = charges.filter {
            $0.claim.driver == claim.driver && $0.claim.limitClass == claim.limitClass
                && now - $0.time < Int64(limits.windowSeconds) * 1000
        }
        let verdict: AdmissionDecision.Verdict
        if stored.contains("\(claim.driver) \(claim.idempotencyKey)") || window.contains(where: { $0.claim == claim }) {
            verdict = .known
        } else if window.count >= limit {
            verdict = .refused
        } else {
            verdict = .admitted
            charges.append((claim, now))
            window.append((claim, now))
        }
        let reset = window.map { $0.time + Int64(limits.windowSeconds) * 1000 - now }.min() ?? 0
        return AdmissionDecision(
            verdict: verdict,
            quota: Quota(
                limit: limit, windowSeconds: limits.windowSeconds, remaining: limit - window.count,
                resetMilliseconds: reset))
    }

    mutating func recordStored(_ claim: AdmissionClaim) { stored.insert("\(claim.driver) \(claim.idempotencyKey)") }

    /// Removes the latest charge of the claim. No earlier charge of the claim is in the window, because a claim in the
    /// window is not charged again.
    mutating func refund(_ claim: AdmissionClaim) {
        if let place = charges.lastIndex(where: { $0.claim == claim }) { charges.remove(at: place) }
    }
}

struct LocalRateLimiterPropertyTests {
    @Test func randomTracesAgreeWithTheReference() async {
        var seeds = SystemRandomNumberGenerator()
        for _ in 0..<60 {
            let seed = seeds.next()
            await compareTrace(seed)
        }
    }

    private func compareTrace(_ seed: UInt64) async {
        var random = SeededRandom(seed: seed)
        let clock = HandClock()
        let limits = RateLimits(
            sessionEvents: .random(in: 1...6, using: &random), preSessionEvents: .random(in: 1...3, using: &random),
            windowSeconds: .random(in: 1...3, using: &random))
        let admission = LocalRateLimiter(limits: limits, clock: { clock.now })
        var reference = Reference(limits: limits)
        for step in 0..<400 {
            clock.advance(byMilliseconds: .random(in: 0...1, using: &random) * .random(in: 0...900, using: &random))
            let claim = AdmissionClaim(
                driver: DriverID("driver \(Int.random(in: 0...1, using: &random))"),
                limitClass: Bool.random(using: &random) ? .sessionEvents : .preSessionEvents,
                idempotencyKey: "key \(Int.random(in: 0...40, using: &random))")
            switch Int.random(in: 0..<20, using: &random) {
            case 0:
                admission.recordStored(claim)
                reference.recordStored(claim)
            case 1, 2:
                admission.refund(claim)
                reference.refund(claim)
            default:
                let expected = reference.admit(claim, at: clock.now)
                let answer = await admission.admit(claim)
                #expect(answer == expected, "seed \(seed), step \(step)")
                if answer != expected { return }
            }
        }
    }
}
