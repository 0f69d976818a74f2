// A fixed number of counters of one family, addressed by index. A hot path counts by index, so it builds no labels and
// looks up no name. A counter is created when it is first incremented, so a backend sees only the counters in use.

package import CoreMetrics
internal import Synchronization

package final class CounterTable: Sendable {
    private final class CounterBox: Sendable {
        let counter: any CounterHandler

        init(_ counter: any CounterHandler) {
            self.counter = counter
        }
    }

    private final class Cell: Sendable {
        private let made = AtomicLazyReference<CounterBox>()
        /// An unmanaged copy of the reference in `made`; nil until `made` is set. Counting through it avoids a retain
        /// and a release. Each of these would be an atomic operation on memory that all event loops write to.
        private let shortcut = Atomic<Unmanaged<CounterBox>?>(nil)

        func count(_ amount: Int64, _ make: () -> any CounterHandler) {
            if let counted = shortcut.load(ordering: .acquiring) {
                // The unmanaged reference is safe, because `made` is set only once, lives as long as this cell, and
                // owns the object.
                return counted._withUnsafeGuaranteedRef { $0.counter.increment(by: amount) }
            }
            let made = made.load() ?? made.storeIfNil(CounterBox(make()))
            shortcut.store(Unmanaged.passUnretained(made), ordering: .releasing)
            made.counter.increment(by: amount)
        }
    }

    private let family: MetricFamily
    private let factory: any MetricsFactory
    private let dimensions: @Sendable (Int) -> [(String, String)]
    private let kept: [Cell]
    /// Unmanaged references to the cells, for counting without retain and release. Using them is safe, because `kept`
    /// owns the cells as long as this table exists.
    private let cells: [Unmanaged<Cell>]

    /// Creates the table. `dimensions` returns the labels of an index from 0 to `count` - 1.
    ///
    /// `dimensions` is called at the first use of an index. If several threads use a new index at the same time, each
    /// of them may call `dimensions`.
    package init(
        _ family: MetricFamily, count: Int, factory: any MetricsFactory,
        dimensions: @escaping @Sendable (Int) -> [(String, String)]
    ) {
        self.family = family
        self.factory = factory
        self.dimensions = dimensions
        kept = (0..<max(0, count)).map { _ in Cell() }
        cells = kept.map { Unmanaged.passUnretained($0) }
    }

    /// Adds `amount` to the counter at `index`. An index out of range is ignored.
    package func count(_ index: Int, by amount: Int64 = 1) {
        guard cells.indices.contains(index) else { return }
        cells[index]._withUnsafeGuaranteedRef { $0.count(amount) { make(index) } }
    }

    @inline(never) private func make(_ index: Int) -> any CounterHandler {
        factory.counter(family, dimensions(index))
    }
}
