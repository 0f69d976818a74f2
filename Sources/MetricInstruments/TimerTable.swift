// A fixed number of timers of one family, addressed by index, the counterpart of CounterTable.

package import CoreMetrics

package final class TimerTable: Sendable {
    private final class Made: Sendable {
        let timer: any TimerHandler

        init(_ timer: any TimerHandler) {
            self.timer = timer
        }
    }

    private let kept: [Made]
    /// The same timers, for recording without retain and release. Safe: `kept` owns them as long as this table
    /// exists.
    private let timers: [Unmanaged<Made>]

    package init(_ timers: [any TimerHandler]) {
        kept = timers.map { Made($0) }
        self.timers = kept.map { Unmanaged.passUnretained($0) }
    }

    package var count: Int { timers.count }

    /// An index out of range is ignored.
    package func record(nanoseconds: Int64, at place: Int) {
        guard timers.indices.contains(place) else { return }
        timers[place]._withUnsafeGuaranteedRef { $0.timer.recordNanoseconds(nanoseconds) }
    }
}
