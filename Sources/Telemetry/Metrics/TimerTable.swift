// A fixed number of timers of one family, known by place, as CounterTable has counters.

package import CoreMetrics

package final class TimerTable: Sendable {
    private final class Made: Sendable {
        let timer: any TimerHandler

        init(_ timer: any TimerHandler) {
            self.timer = timer
        }
    }

    private let kept: [Made]
    /// The same, for recording without references taken. Safe: `kept` has them for as long as this is there.
    private let timers: [Unmanaged<Made>]

    package init(_ timers: [any TimerHandler]) {
        kept = timers.map { Made($0) }
        self.timers = kept.map { Unmanaged.passUnretained($0) }
    }

    package var count: Int { timers.count }

    /// At a place that does not exist it records nothing.
    package func record(nanoseconds: Int64, at place: Int) {
        guard timers.indices.contains(place) else { return }
        timers[place]._withUnsafeGuaranteedRef { $0.timer.recordNanoseconds(nanoseconds) }
    }
}
