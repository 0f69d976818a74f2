// A fixed number of timers of one family, addressed by index like the counters of CounterTable.

package import CoreMetrics

package final class TimerTable: Sendable {
    private final class TimerBox: Sendable {
        let timer: any TimerHandler

        init(_ timer: any TimerHandler) {
            self.timer = timer
        }
    }

    private let kept: [TimerBox]
    /// Unmanaged references to the timers, for recording without retain and release. Using them is safe, because `kept`
    /// owns the timers as long as this table exists.
    private let timers: [Unmanaged<TimerBox>]

    package init(_ timers: [any TimerHandler]) {
        kept = timers.map { TimerBox($0) }
        self.timers = kept.map { Unmanaged.passUnretained($0) }
    }

    package var count: Int { timers.count }

    /// Records a duration in the timer at `index`. An index out of range is ignored.
    package func record(nanoseconds: Int64, at index: Int) {
        guard timers.indices.contains(index) else { return }
        timers[index]._withUnsafeGuaranteedRef { $0.timer.recordNanoseconds(nanoseconds) }
    }
}
