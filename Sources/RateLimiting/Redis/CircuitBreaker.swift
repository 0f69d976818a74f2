// Decides when to stop calling a dependency that does not respond, and when to probe it. A pure state machine: time
// and randomness are passed in, and it does not know what is called.
//
//     closed --failuresMax failures in a row--> open --delay passed, probe starts--> halfOpen
//     halfOpen --success--> closed        halfOpen --failure--> open, the delay doubled
//     any --success--> closed             open --failure--> open, nothing changes

package struct CircuitBreaker: Sendable {
    package struct Limits: Hashable, Sendable {
        /// Consecutive failures: a single late response is noise, the third one is not.
        package var failuresMax = 3
        /// Before the first probe. A random half to all of it, so that processes do not probe in step.
        package var delayMilliseconds: Int64 = 100
        /// The delay doubles up to this: the longest time for which a recovery goes unnoticed.
        package var delayMillisecondsMax: Int64 = 2000

        package init() {}
    }

    package enum State: String, Hashable, Sendable {
        /// Calls are made.
        case closed
        /// No calls; waiting for the time of the next probe.
        case open
        /// No calls; a probe is in progress.
        case halfOpen = "half-open"
    }

    package private(set) var state = State.closed
    private let limits: Limits
    private var failures = 0
    private var delayMilliseconds: Int64
    private var probeAt: Int64 = 0

    package init(limits: Limits = Limits()) {
        self.limits = limits
        delayMilliseconds = limits.delayMilliseconds
    }

    /// Requests may make calls only while closed.
    package var permitsRequests: Bool { state == .closed }

    /// A call or probe succeeded.
    package mutating func recordSuccess() {
        state = .closed
        failures = 0
        delayMilliseconds = limits.delayMilliseconds
    }

    /// A call or a probe failed. Returns true when this opened the breaker.
    ///
    /// - Parameter chance: random, 0 ..< 1.
    @discardableResult
    package mutating func recordFailure(at now: Int64, chance: Double) -> Bool {
        switch state {
        case .closed:
            failures += 1
            guard failures >= limits.failuresMax else { return false }
            open(at: now, chance: chance)
            return true
        case .halfOpen:
            delayMilliseconds = min(delayMilliseconds * 2, limits.delayMillisecondsMax)
            open(at: now, chance: chance)
            return true
        case .open:
            return false
        }
    }

    /// Milliseconds until a probe may start; 0 when it may start now, nil when no probe is needed: the breaker is
    /// closed, or another probe is in progress.
    package func probeDelayMilliseconds(at now: Int64) -> Int64? {
        state == .open ? max(probeAt - now, 0) : nil
    }

    /// True when the caller must probe; it must record the result.
    package mutating func startProbe(at now: Int64) -> Bool {
        guard state == .open, now >= probeAt else { return false }
        state = .halfOpen
        return true
    }

    private mutating func open(at now: Int64, chance: Double) {
        state = .open
        failures = 0
        let share = 0.5 + 0.5 * min(max(chance, 0), 1)
        probeAt = now + Int64(Double(delayMilliseconds) * share)
    }
}
