// What background work does while it keeps failing: how often it logs the failure, and how long it waits between two
// attempts.

package import JourneyModel

/// Allows one log line a minute.
package struct FailureLogLimit: Hashable, Sendable {
    private var pause: Pause?

    package init() {}

    /// Returns whether to log a failure now. After it has returned true, it returns false for a minute.
    package mutating func allowsLine(at now: Moment) -> Bool {
        guard pause?.isOver(at: now) ?? true else { return false }
        pause = Pause(from: now, milliseconds: 60_000)
        return true
    }
}

/// The pauses before the next attempt of a delivery. Callers add a random time to the pause after a failure.
package enum RetryPause {
    /// The longest pause after a failure, if the receiving service asks for no pause.
    package static let millisecondsMax: Int64 = 60_000
    /// The longest pause that a receiving service can ask for.
    package static let askedSecondsMax = 3600

    /// Returns the pause after a failure. `failureCount` is the number of consecutive failures before this one. The
    /// pause is 1 s for 0, 2 s for 1, 4 s for 2 and so on, up to 60 s.
    package static func milliseconds(_ failureCount: Int) -> Int64 {
        min(1000 << Int64(min(max(failureCount, 0), 6)), millisecondsMax)
    }

    /// Returns the pause that the receiving service requested, at most an hour. Returns 0 if the service requested
    /// none.
    package static func milliseconds(askedSeconds: Int?) -> Int64 {
        Int64(min(max(askedSeconds ?? 0, 0), askedSecondsMax)) * 1000
    }
}
