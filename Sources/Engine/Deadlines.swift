// The server enforces deadlines too (contract, section 1): a session past its grace or hard deadline ends with a
// stored event of source `server`, even if no client ever sends again. This file decides when to check for due
// deadlines. The store finds the due deadlines in committed rows, and stores each expiry once. No state is kept
// between two rounds, so a restart, a second instance or a jump of the clock needs no handling.

package import CoreMetrics
package import JourneyModel
package import Logging
package import MetricInstruments

extension MetricFamily {
    package static let deadlinesStored = MetricFamily(
        "dwell_deadlines_stored_total", "Sessions ended by the server at their deadline.")
    package static let deadlineFailures = MetricFamily(
        "dwell_deadline_failures_total", "Rounds in which a due deadline could not be stored.")
    package static let deadlineLateSeconds = MetricFamily(
        "dwell_deadline_late_seconds", "Delay of the earliest due deadline when processed.", bounds: durations)
    package static let deadlineOverdueSeconds = MetricFamily(
        "dwell_deadline_overdue_seconds", "Age of the earliest due deadline not yet stored; 0 is normal.")
    package static let deadlinesDue = MetricFamily(
        "dwell_deadlines_due", "Drivers with a passed deadline whose expiry is not stored yet; 0 is normal.")
}

/// The port of deadlines. Its implementation also stores, in the transaction of an append, the expiry of a deadline
/// that lies before the appended event.
package protocol DeadlineStore: Sendable {
    /// Returns the earliest running deadline of any driver, passed or not; nil when no deadline runs.
    func earliestDeadline() async throws(StoreFailure) -> Moment?

    /// Stores the expiries of deadlines before `request.now`, earliest first. Each is stored exactly once, even when
    /// several instances call this. Returns after the commit.
    func storeExpiries(_ request: ExpiryRequest) async throws(StoreFailure) -> StoredExpiries
}

/// A bounded part of the deadlines that are due at one moment.
package struct ExpiryRequest: Sendable {
    package var now: Moment
    /// The settings in force; expiries store their version, like every event.
    package var settings: VersionedSettings
    package var driversMax: Int
    /// Where the previous part ended.
    package var after: DeadlineCursor?

    package init(now: Moment, settings: VersionedSettings, driversMax: Int, after: DeadlineCursor? = nil) {
        self.now = now
        self.settings = settings
        self.driversMax = driversMax
        self.after = after
    }
}

/// A place in the order of running deadlines: the time, then the store's own number of the driver.
package struct DeadlineCursor: Hashable, Sendable {
    package var deadline: Moment
    package var driver: Int64

    package init(deadline: Moment, driver: Int64) {
        self.deadline = deadline
        self.driver = driver
    }
}

package struct StoredExpiries: Hashable, Sendable {
    /// The drivers whose sessions ended.
    package var drivers: [DriverID]
    /// The reasons why sessions of other drivers could not be ended; for the log.
    package var failures: [StoreFailure]
    /// Where the next part begins; nil when no due deadline is left.
    package var next: DeadlineCursor?

    package init(drivers: [DriverID] = [], failures: [StoreFailure] = [], next: DeadlineCursor? = nil) {
        self.drivers = drivers
        self.failures = failures
        self.next = next
    }
}

/// The task that makes the store write due expiries.
package struct ExpiryScheduler: Sendable {
    /// The maximum time between two queries of the store. Another instance may start a deadline that is due before the
    /// earliest one known here, and clocks may be changed. Half of the second within which an expiry is stored.
    package static let pauseMillisecondsMax: Int64 = 500
    /// The maximum number of drivers per transaction. After a long outage many deadlines are due, and one long commit
    /// would delay events.
    package static let driversMax = 64
    /// A persistent failure is logged once per interval.
    static let failureLogIntervalMilliseconds: Int64 = 60_000

    private let store: any DeadlineStore
    private let settings: CurrentSettings
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let stored: any CounterHandler
    private let failed: any CounterHandler
    private let late: any TimerHandler
    private let overdue: any MeterHandler

    package init(
        store: any DeadlineStore, settings: CurrentSettings, clock: @escaping @Sendable () -> Moment, logger: Logger,
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) {
        self.store = store
        self.settings = settings
        self.clock = clock
        self.logger = logger
        stored = metrics.counter(.deadlinesStored)
        failed = metrics.counter(.deadlineFailures)
        late = metrics.timer(.deadlineLateSeconds)
        overdue = metrics.gauge(.deadlineOverdueSeconds)
    }

    /// Runs until the task is cancelled.
    package func run() async {
        var nextLog = clock()
        while !Task.isCancelled {
            let pause: Int64
            do throws(StoreFailure) {
                let failures = try await storeDueExpiries()
                if let failure = failures.first { throw failure }
                pause = try await pauseMilliseconds()
            } catch {
                let now = clock()
                if error != .cancelled { failed.increment(by: 1) }
                if error != .cancelled, now >= nextLog {
                    logger.error("storing due deadlines failed", metadata: ["failure": "\(error)"])
                    nextLog = now.advanced(byMilliseconds: Self.failureLogIntervalMilliseconds)
                }
                pause = Self.pauseMillisecondsMax
            }
            do { try await Task.sleep(for: .milliseconds(pause)) } catch { return }
        }
    }

    /// Stores every expiry that is due now, in parts. Returns the failures; every expiry without a failure is stored.
    @discardableResult
    package func storeDueExpiries() async throws(StoreFailure) -> [StoreFailure] {
        let now = clock()
        guard let earliest = try await store.earliestDeadline(), earliest < now else {
            overdue.set(0.0)
            return []
        }
        let lateMilliseconds = now.milliseconds(since: earliest)
        late.recordNanoseconds(min(lateMilliseconds, 1 << 40) * 1_000_000)
        overdue.set(Double(lateMilliseconds) / 1000)
        var failures: [StoreFailure] = []
        var request = ExpiryRequest(now: now, settings: settings.read(), driversMax: Self.driversMax)
        repeat {
            let part = try await store.storeExpiries(request)
            stored.increment(by: Int64(part.drivers.count))
            // The log needs only a few failures, so the list is bounded.
            if failures.count < Self.driversMax { failures += part.failures }
            request.after = part.next
        } while request.after != nil && !Task.isCancelled
        if failures.isEmpty { overdue.set(0.0) }
        return failures
    }

    /// Returns the time until 1 ms after the earliest deadline, when that deadline has passed; at most
    /// `pauseMillisecondsMax`.
    private func pauseMilliseconds() async throws(StoreFailure) -> Int64 {
        guard let earliest = try await store.earliestDeadline() else { return Self.pauseMillisecondsMax }
        let left = earliest.advanced(byMilliseconds: 1).milliseconds(since: clock())
        return min(max(left, 1), Self.pauseMillisecondsMax)
    }
}
