// A fixed number of counters of one family, known by place: whoever counts on a hot path has no label to build and no
// name to look up. A counter is made when its place is counted for the first time, so that a backend sees only what
// happens.

package import CoreMetrics
internal import Synchronization

package final class CounterTable: Sendable {
    private final class Made: Sendable {
        let counter: any CounterHandler

        init(_ counter: any CounterHandler) {
            self.counter = counter
        }
    }

    private final class Cell: Sendable {
        let made = AtomicLazyReference<Made>()
    }

    private let name: String
    private let factory: any MetricsFactory
    private let dimensions: @Sendable (Int) -> [(String, String)]
    private let cells: [Cell]

    /// `dimensions` names the labels of a place, from 0 to `count` - 1; called once or so for each.
    package init(
        _ family: MetricFamily, count: Int, factory: any MetricsFactory,
        dimensions: @escaping @Sendable (Int) -> [(String, String)]
    ) {
        name = family.name
        self.factory = factory
        self.dimensions = dimensions
        cells = (0..<max(0, count)).map { _ in Cell() }
    }

    /// One more at that place. One that does not exist counts for nobody.
    package func count(_ place: Int, by amount: Int64 = 1) {
        guard cells.indices.contains(place) else { return }
        let cell = cells[place]
        let made = cell.made.load() ?? cell.made.storeIfNil(Made(make(place)))
        made.counter.increment(by: amount)
    }

    @inline(never) private func make(_ place: Int) -> any CounterHandler {
        factory.makeCounter(label: name, dimensions: dimensions(place))
    }
}
