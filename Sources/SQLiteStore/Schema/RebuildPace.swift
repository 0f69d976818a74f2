// Measures the speed of a rebuild, and reports it about once a second.

struct RebuildPace {
    private let started = ContinuousClock.now
    private var reported = ContinuousClock.now
    /// The number of rows that were finished at the first call of `show`. Nil before that call.
    private var first: Int?

    mutating func show(_ done: Int, of total: Int, _ report: (RebuildProgress) -> Void) {
        let first = self.first ?? done
        self.first = first
        let now = ContinuousClock.now
        guard now - reported >= .seconds(1) else { return }
        reported = now
        let seconds = Double((now - started) / .milliseconds(1)) / 1000
        report(
            RebuildProgress(done: done, total: total, rowsPerSecond: Int(Double(done - first) / max(seconds, 0.001))))
    }
}
