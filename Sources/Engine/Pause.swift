// A pause between two attempts or two log lines, measured with the wall clock.

package import JourneyModel

package struct Pause: Hashable, Sendable {
    private var start: Moment
    private var milliseconds: Int64

    package init(from start: Moment, milliseconds: Int64) {
        self.start = start
        self.milliseconds = milliseconds
    }

    /// Returns whether the pause is over. If `start` is in the future, the clock was set back, and the pause counts as
    /// over. Otherwise the pause would last until the clock reaches `start` again.
    package func isOver(at now: Moment) -> Bool {
        !(0..<milliseconds).contains(now.milliseconds(since: start))
    }
}
