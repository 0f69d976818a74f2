#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A time on the monotonic clock, which changes of the wall clock do not affect.
package struct Deadline: Hashable, Comparable, Sendable {
    /// The time in nanoseconds on CLOCK_MONOTONIC.
    package let nanoseconds: UInt64

    package init(nanoseconds: UInt64) {
        self.nanoseconds = nanoseconds
    }

    package static let never = Deadline(nanoseconds: .max)

    package static var now: Deadline {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Deadline(nanoseconds: UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec))
    }

    /// Returns the time `milliseconds` from now. A negative number counts as 0, and more than a century as `never`.
    package static func inMilliseconds(_ milliseconds: Int) -> Deadline {
        now.advanced(byMilliseconds: milliseconds)
    }

    package static func inSeconds(_ seconds: Int) -> Deadline {
        inMilliseconds(seconds > .max / 1000 ? .max : seconds < 0 ? 0 : seconds * 1000)
    }

    package func advanced(byMilliseconds milliseconds: Int) -> Deadline {
        let centuryMilliseconds = 100 * 366 * 86_400_000
        if milliseconds > centuryMilliseconds || self == .never { return .never }
        return Deadline(nanoseconds: nanoseconds &+ UInt64(max(0, milliseconds)) &* 1_000_000)
    }

    package var hasPassed: Bool {
        self != .never && Deadline.now >= self
    }

    /// The milliseconds until the deadline, rounded up; 0 when the deadline has passed.
    package var remainingMilliseconds: Int {
        let now = Deadline.now.nanoseconds
        if nanoseconds <= now { return 0 }
        return Int(clamping: (nanoseconds - now) / 1_000_000 + 1)
    }

    /// Divides the remaining time into `count` equal parts, and returns the end of the first part.
    func share(of count: Int) -> Deadline {
        if count <= 1 || self == .never { return self }
        let now = Deadline.now.nanoseconds
        return nanoseconds <= now ? self : Deadline(nanoseconds: now + (nanoseconds - now) / UInt64(count))
    }

    package static func < (one: Deadline, other: Deadline) -> Bool {
        one.nanoseconds < other.nanoseconds
    }
}
