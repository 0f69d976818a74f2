// When to stop asking something that does not answer, and when to look again. A pure state machine: time and
// chance are told to it, and it refuses to know what is asked.
//
//     closed --failuresMax failures in a row--> open --delay passed, probe starts--> halfOpen
//     halfOpen --success--> closed        halfOpen --failure--> open, the delay doubled
//     any --success--> closed             open --failure--> open, nothing changes

package struct CircuitBreaker: Sendable {
    package struct Limits: Hashable, Sendable {
        /// In a row: a single late answer is noise, the third one is not.
        package var failuresMax = 3
        /// Before the first probe. Half of it to all of it, by chance, so that processes do not probe in step.
        package var delayMilliseconds: Int64 = 100
        /// The delay doubles up to this: how long a recovery may go unnoticed.
        package var delayMillisecondsMax: Int64 = 2000

        package init() {}
    }

    package enum State: String, Hashable, Sendable {
        /// Asking.
        case closed
        /// Not asking; waiting for the time of the next probe.
        case open
        /// Not asking; a probe is under way.
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

    /// Only closed lets a request ask.
    package var permitsRequests: Bool { state == .closed }

    /// Something was answered as it should be.
    package mutating func recordSuccess() {
        state = .closed
        failures = 0
        delayMilliseconds = limits.delayMilliseconds
    }

    /// A call or a probe failed. True when this opened the breaker.
    ///
    /// - Parameter chance: 0 ..< 1.
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

    /// Milliseconds until a probe may start; 0 when it may start now, nil when no probe is wanted: the breaker is
    /// closed, or another probe is under way.
    package func probeDelayMilliseconds(at now: Int64) -> Int64? {
        state == .open ? max(probeAt - now, 0) : nil
    }

    /// True when the caller is the one to probe; it must record how that went.
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
