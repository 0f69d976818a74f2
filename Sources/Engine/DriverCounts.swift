// The number of drivers in each state, for metrics and for the operator page. Counting reads every driver's row. A
// result is cached for twenty times as long as the counting took. Therefore counting keeps one reader of the store busy
// for at most a twentieth of the time, however many callers there are.

package import JourneyModel
package import MetricInstruments

extension MetricFamily {
    package static let drivers = MetricFamily(
        "dwell_drivers", "Drivers by state.")
}

package actor DriverCounts {
    package static let keptPerDuration = 20

    private let reader: any OperatorReader
    private let keptPerDuration: Int
    private var last: (counts: [JourneyState: Int], validUntil: ContinuousClock.Instant)?
    private var counting: Task<Result<[JourneyState: Int], StoreFailure>, Never>?

    /// - Parameter keptPerDuration: a result is cached for `keptPerDuration` times as long as the counting took.
    package init(reader: any OperatorReader, keptPerDuration: Int = keptPerDuration) {
        self.reader = reader
        self.keptPerDuration = keptPerDuration
    }

    /// Returns the number of drivers by state. A state without drivers has no entry. Concurrent calls share one query.
    package func current() async throws(StoreFailure) -> [JourneyState: Int] {
        if let last, ContinuousClock.now < last.validUntil { return last.counts }
        if let counting { return try await counting.value.get() }
        let task = Task { [reader] () async -> Result<[JourneyState: Int], StoreFailure> in
            do throws(StoreFailure) {
                return .success(try await reader.driverCounts())
            } catch {
                return .failure(error)
            }
        }
        counting = task
        let start = ContinuousClock.now
        let result = await task.value
        counting = nil
        let counts = try result.get()
        let end = ContinuousClock.now
        last = (counts, end + (end - start) * keptPerDuration)
        return counts
    }
}
