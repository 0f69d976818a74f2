// The series behind swift-metrics' handlers. A series holds the values of one metric with one set of labels.
//
// Recording a value in an existing series takes no lock and allocates no memory. A counter needs one atomic add, a
// gauge one atomic store, and a histogram two atomic adds. Adds are spread over several stripes of memory, so few
// threads share one (StripedCounts).

internal import CoreMetrics
internal import Synchronization

/// A counter of whole numbers.
final class CounterSeries: CounterHandler {
    private let count = StripedCounts(count: 1)

    var value: Int64 { count.sum(at: 0) }

    func increment(by amount: Int64) {
        count.add(amount, at: 0)
    }

    func reset() {
        count.reset()
    }
}

/// A number that goes up and down, or a counter of fractional amounts. It implements three kinds of swift-metrics
/// handlers: the meter, the floating-point counter, and the recorder that does not aggregate.
final class GaugeSeries: MeterHandler, RecorderHandler, FloatingPointCounterHandler {
    private let bits = Atomic<UInt64>(0)

    var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }

    func set(_ value: Double) {
        bits.store(value.bitPattern, ordering: .relaxed)
    }

    func set(_ value: Int64) { set(Double(value)) }
    func record(_ value: Double) { set(value) }
    func record(_ value: Int64) { set(Double(value)) }
    func decrement(by amount: Double) { increment(by: -amount) }
    func reset() { set(0.0) }

    func increment(by amount: Double) {
        var old = bits.load(ordering: .relaxed)
        while true {
            let new = (Double(bitPattern: old) + amount).bitPattern
            let (exchanged, original) = bits.weakCompareExchange(expected: old, desired: new, ordering: .relaxed)
            if exchanged { return }
            old = original
        }
    }
}

/// A histogram: counts the values in each bucket, and adds up all values. It implements a timer (in nanoseconds) and an
/// aggregating recorder.
final class HistogramSeries: TimerHandler, RecorderHandler {
    /// The upper bounds of the buckets, ascending.
    let bounds: [Int64]
    /// One count for each bound, then a count of the values above all bounds, then the sum of the values.
    private let buckets: StripedCounts

    init(bounds: [Int64]) {
        self.bounds = bounds
        buckets = StripedCounts(count: bounds.count + 2)
    }

    /// The number of values in each bucket, not cumulative.
    var counts: [Int64] { (0...bounds.count).map { buckets.sum(at: $0) } }
    var sum: Int64 { buckets.sum(at: bounds.count + 1) }

    func record(_ value: Int64) {
        var index = 0
        while index < bounds.count, value > bounds[index] { index += 1 }
        buckets.add(1, at: index)
        buckets.add(value, at: bounds.count + 1)
    }

    func recordNanoseconds(_ duration: Int64) { record(duration) }

    func record(_ value: Double) {
        record(Int64(exactly: value.rounded()) ?? 0)
    }
}
