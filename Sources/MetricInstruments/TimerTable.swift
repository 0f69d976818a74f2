// A fixed number of timers of one family, addressed by index like the counters of CounterTable.

package import CoreMetrics

package final class TimerTable: Sendable {
    private final class Made: Sendable {
        let timer: any TimerHandler

        init(_ timer: any TimerHandler) {
            self.timer = timer
        }
    }

    private let kept: [Made]
    /// Unmanaged references to the timers, for recording without retain and release. Safe: `kept` owns the timers as
    /// long as this table exists.
    private let timers: [Unmanaged<Made>]

    package init(_ timers: [any TimerHandler]) {
        kept = timers.map { Made($0) }
        self.timers = kept.map { Unmanaged.passUnretained($0) }
    }

    package var count: Int { timers.count }

    /// Records a duration in the timer at the index `place`. An index out of range is ignored.
    package func record(nanoseconds: Int64, at place: Int) {
        guard timers.indices.contains(place) else { return }
        timers[place]._withUnsafeGuaranteedRef { $0.timer.recordNanoseconds(nanoseconds) }
    }
}
