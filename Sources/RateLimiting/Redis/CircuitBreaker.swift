// Decides when to stop calling a dependency that does not respond, and when to probe it. A pure state machine for any
// dependency: time and randomness are passed in.
//
//     closed --failuresMax failures in a row--> open --delay passed, probe starts--> halfOpen
//     halfOpen --success--> closed        halfOpen --failure--> open, the delay doubled
//     any --success--> closed             open --failure--> open, nothing changes

package struct CircuitBreaker: Sendable {
    package struct Limits: Hashable, Sendable {
        /// The number of consecutive failures that opens the breaker. One late response is no outage.
        package var failuresMax = 3
        /// The delay before the first probe. The actual wait is a random time from half of the delay to the whole
        /// delay, so that processes do not probe together.
        package var delayMilliseconds: Int64 = 100
        /// Each failed probe doubles the delay, up to this bound. A recovery of the dependency is therefore noticed
        /// within this time.
        package var delayMillisecondsMax: Int64 = 2000

        package init() {}
    }

    package enum State: String, Hashable, Sendable {
        /// Calls are made.
        case closed
        /// No calls are made until the next probe.
        case open
        /// No calls are made except the probe, which is in progress.
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

    /// Whether requests may make calls: only in state `closed`.
    package var permitsRequests: Bool { state == .closed }

    /// Records that a call or a probe succeeded.
    package mutating func recordSuccess() {
        state = .closed
        failures = 0
        delayMilliseconds = limits.delayMilliseconds
    }

    /// Records that a call or a probe failed. Returns true when this failure opened the breaker.
    ///
    /// - Parameter chance: a random number, 0 ..< 1.
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

    /// Returns the milliseconds until a probe may start; 0 if it may start now. Returns nil if no probe is needed,
    /// because the breaker is closed or another probe is in progress.
    package func probeDelayMilliseconds(at now: Int64) -> Int64? {
        state == .open ? max(probeAt - now, 0) : nil
    }

    /// Starts a probe if one is due. Returns true if the caller must make the probe and record its result.
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
