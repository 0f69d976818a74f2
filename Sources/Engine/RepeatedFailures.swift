// How often background work logs a repeated failure, and how long it waits before it tries again.

package import JourneyModel

/// Allows one log line a minute.
package struct FailureLogLimit: Hashable, Sendable {
    private var pause: Pause?

    package init() {}

    /// Returns whether to log a failure now. For a minute after a true result, returns false.
    package mutating func allowsLine(at now: Moment) -> Bool {
        guard pause?.isOver(at: now) ?? true else { return false }
        pause = Pause(from: now, milliseconds: 60_000)
        return true
    }
}

/// The pauses before the next attempt of a delivery. Callers add a random time to the pause after a failure.
package enum RetryPause {
    /// The maximum pause, unless the receiving service asks for a longer one.
    package static let millisecondsMax: Int64 = 60_000
    /// The longest pause that a receiving service can ask for.
    package static let askedSecondsMax = 3600

    /// Returns the pause after a failure: 1 s, 2 s, 4 s and so on, up to 60 s. `failureCount` is the number of
    /// consecutive failures before this one.
    package static func milliseconds(_ failureCount: Int) -> Int64 {
        min(1000 << Int64(min(max(failureCount, 0), 6)), millisecondsMax)
    }

    /// Returns the pause that the receiving service asked for, but at most an hour. Returns 0 if `askedSeconds` is nil.
    package static func milliseconds(askedSeconds: Int?) -> Int64 {
        Int64(min(max(askedSeconds ?? 0, 0), askedSecondsMax)) * 1000
    }
}
