// The number of drivers in each state, for metrics and for the operator page. Counting reads every driver's row.
//
// After a count ends, even if it failed, the next count must wait twenty times as long as the count took. Counting
// therefore uses one connection of the store for at most a twentieth of the time.
//
// Callers wait for a count for at most `patience`, and then get the previous numbers.

package import JourneyModel
package import MetricInstruments

extension MetricFamily {
    package static let drivers = MetricFamily(
        "dwell_drivers", "Drivers by state.")
}

package actor DriverCounts {
    package static let keptPerDuration = 20
    /// How long callers wait for a count, measured from its start.
    package static let patience = Duration.seconds(2)

    private let reader: any OperatorReader
    private let keptPerDuration: Int
    private let run: SharedRun
    /// The last count that succeeded.
    private var counts: [JourneyState: Int]?
    /// The failure of the last count; nil if it succeeded.
    private var failure: StoreFailure?
    /// No new count begins before this time. Nil until the first count has ended.
    private var keptUntil: ContinuousClock.Instant?

    /// - Parameters:
    ///   - keptPerDuration: the time for which a result is kept, as a multiple of the duration of the count.
    ///   - patience: how long callers wait for a count, from the start of the count.
    package init(
        reader: any OperatorReader, keptPerDuration: Int = keptPerDuration, patience: Duration = patience
    ) {
        self.reader = reader
        self.keptPerDuration = keptPerDuration
        run = SharedRun(patience: patience)
    }

    /// Returns the result of the last successful count; a state without drivers has no entry. Concurrent calls share
    /// one query. Throws only if no count has succeeded yet.
    package func current() async throws(StoreFailure) -> [JourneyState: Int] {
        if keptUntil.map({ ContinuousClock.now >= $0 }) ?? true {
            await run.join { await self.count() }
        }
        if let counts { return counts }
        throw failure ?? .unavailable("the drivers are being counted")
    }

    private func count() async {
        let begin = ContinuousClock.now
        do throws(StoreFailure) {
            counts = try await reader.driverCounts()
            failure = nil
        } catch {
            failure = error
        }
        let end = ContinuousClock.now
        keptUntil = end + (end - begin) * keptPerDuration
    }
}
