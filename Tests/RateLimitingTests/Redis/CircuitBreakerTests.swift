// Tests the circuit breaker as a state machine: each test is a sequence of times and outcomes.

import RateLimiting
import Testing

struct CircuitBreakerTests {
    private func openedBreaker(at now: Int64, chance: Double = 1) -> CircuitBreaker {
        var breaker = CircuitBreaker()
        for _ in 0..<CircuitBreaker.Limits().failuresMax { breaker.recordFailure(at: now, chance: chance) }
        return breaker
    }

    @Test func failuresInARowOpenIt() {
        var breaker = CircuitBreaker()
        #expect(breaker.recordFailure(at: 0, chance: 0) == false)
        #expect(breaker.recordFailure(at: 0, chance: 0) == false)
        #expect(breaker.permitsRequests)
        #expect(breaker.recordFailure(at: 0, chance: 0) == true)
        #expect(breaker.state == .open)
        #expect(!breaker.permitsRequests)
    }

    @Test func successInBetweenStartsTheCountAgain() {
        var breaker = CircuitBreaker()
        for _ in 0..<100 {
            breaker.recordFailure(at: 0, chance: 0)
            breaker.recordFailure(at: 0, chance: 0)
            breaker.recordSuccess()
        }
        #expect(breaker.state == .closed)
    }

    @Test func probeStartsAfterTheDelayAndOnlyOnce() {
        var breaker = openedBreaker(at: 1000)
        #expect(breaker.probeDelayMilliseconds(at: 1040) == 60)
        #expect(breaker.startProbe(at: 1099) == false)
        #expect(breaker.startProbe(at: 1100) == true)
        #expect(breaker.state == .halfOpen)
        #expect(!breaker.permitsRequests, "requests do not probe")
        #expect(breaker.startProbe(at: 5000) == false)
        #expect(breaker.probeDelayMilliseconds(at: 5000) == nil)
    }

    @Test func successfulProbeClosesIt() {
        var breaker = openedBreaker(at: 0)
        #expect(breaker.startProbe(at: 100) == true)
        breaker.recordSuccess()
        #expect(breaker.permitsRequests)
        #expect(breaker.probeDelayMilliseconds(at: 100) == nil)
    }

    @Test func failedProbesDoubleTheDelayUpToItsBound() {
        var breaker = openedBreaker(at: 0)
        var now: Int64 = 0
        var delays: [Int64] = []
        for _ in 0..<8 {
            let delay = breaker.probeDelayMilliseconds(at: now) ?? -1
            delays.append(delay)
            now += delay
            #expect(breaker.startProbe(at: now) == true)
            breaker.recordFailure(at: now, chance: 1)
        }
        #expect(delays == [100, 200, 400, 800, 1600, 2000, 2000, 2000])
    }

    @Test func successForgetsTheDoubledDelay() {
        var breaker = openedBreaker(at: 0)
        #expect(breaker.startProbe(at: 100) == true)
        breaker.recordFailure(at: 100, chance: 1)
        #expect(breaker.startProbe(at: 300) == true)
        breaker.recordSuccess()
        for _ in 0..<3 { breaker.recordFailure(at: 1000, chance: 1) }
        #expect(breaker.probeDelayMilliseconds(at: 1000) == 100)
    }

    @Test(arguments: [(0.0, 50), (0.5, 75), (1.0, 100), (-7.0, 50), (9.0, 100)] as [(Double, Int64)])
    func chanceSpreadsTheDelayOverItsUpperHalf(chance: Double, delayMilliseconds: Int64) {
        #expect(openedBreaker(at: 0, chance: chance).probeDelayMilliseconds(at: 0) == delayMilliseconds)
    }

    @Test func lateFailuresOfAnOpenBreakerPutNothingOff() {
        var breaker = openedBreaker(at: 0)
        #expect(breaker.recordFailure(at: 90, chance: 1) == false)
        #expect(breaker.probeDelayMilliseconds(at: 90) == 10)
    }
}
