// The server keeps time too (contract, section 1): a session past its grace or hard deadline ends with a stored event
// of source `server`, also when no client ever sends again. Here is when to ask for it; which deadlines are due, and
// that each is stored once, is read from committed rows by the store. Nothing is remembered between two
// rounds, so that a restart, a second instance or a jump of the clock needs no care.

package import CoreMetrics
package import JourneyModel
package import Logging
internal import Telemetry

/// The port behind which deadlines lie. Its implementation also stores, in the transaction of an append, the expiry of
/// a deadline that lies before the appended event.
package protocol DeadlineStore: Sendable {
    /// The earliest deadline that runs in the journey of any driver, passed or not; nil when none runs.
    func earliestDeadline() async throws(StoreFailure) -> Moment?

    /// Stores the expiries of deadlines that lie before `request.now`, the earliest first, each exactly once however
    /// many instances ask. Returns after the commit.
    func storeExpiries(_ request: ExpiryRequest) async throws(StoreFailure) -> StoredExpiries
}

/// A bounded part of what is due at one moment.
package struct ExpiryRequest: Sendable {
    package var now: Moment
    /// In force; expiries remember their version, as every stored event does.
    package var settings: VersionedSettings
    package var driversMax: Int
    /// Where the part before ended.
    package var after: DeadlinePlace?

    package init(now: Moment, settings: VersionedSettings, driversMax: Int, after: DeadlinePlace? = nil) {
        self.now = now
        self.settings = settings
        self.driversMax = driversMax
        self.after = after
    }
}

/// A place in the order of running deadlines: the time, then the store's own number of the driver.
package struct DeadlinePlace: Hashable, Sendable {
    package var deadline: Moment
    package var driver: Int64

    package init(deadline: Moment, driver: Int64) {
        self.deadline = deadline
        self.driver = driver
    }
}

package struct StoredExpiries: Hashable, Sendable {
    /// Whose sessions ended.
    package var drivers: [DriverID]
    /// Why some of the others could not be ended; for the log.
    package var failures: [StoreFailure]
    /// Nil when nothing was left; else where the next part begins.
    package var next: DeadlinePlace?

    package init(drivers: [DriverID] = [], failures: [StoreFailure] = [], next: DeadlinePlace? = nil) {
        self.drivers = drivers
        self.failures = failures
        self.next = next
    }
}

/// Asks for expiries when they are due.
package struct ExpiryScheduler: Sendable {
    /// Another instance may start a deadline that is due before the earliest known here, and clocks are set: so the
    /// store is asked at least so often. Half of the second within which an expiry is stored.
    package static let pauseMillisecondsMax: Int64 = 500
    /// Expiries per transaction: a restart after a long outage must not keep events waiting for one long commit.
    package static let driversMax = 64
    /// A failure that lasts is told once in this time.
    static let failureLogIntervalMilliseconds: Int64 = 60_000

    private let store: any DeadlineStore
    private let settings: SettingsInForce
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let stored: any CounterHandler
    private let failed: any CounterHandler
    private let late: any TimerHandler
    private let overdue: any MeterHandler

    package init(
        store: any DeadlineStore, settings: SettingsInForce, clock: @escaping @Sendable () -> Moment, logger: Logger,
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) {
        self.store = store
        self.settings = settings
        self.clock = clock
        self.logger = logger
        stored = metrics.counter(MetricFamilies.deadlinesStored)
        failed = metrics.counter(MetricFamilies.deadlineFailures)
        late = metrics.timer(MetricFamilies.deadlineLateSeconds)
        overdue = metrics.gauge(MetricFamilies.deadlineOverdueSeconds)
    }

    /// Until the task is cancelled.
    package func run() async {
        var nextLog = clock()
        while !Task.isCancelled {
            let pause: Int64
            do throws(StoreFailure) {
                let failures = try await storeWhatIsDue()
                if let failure = failures.first { throw failure }
                pause = try await pauseMilliseconds()
            } catch {
                let now = clock()
                if error != .cancelled { failed.increment(by: 1) }
                if error != .cancelled, now >= nextLog {
                    logger.error("deadlines are not stored", metadata: ["failure": "\(error)"])
                    nextLog = now.advanced(byMilliseconds: Self.failureLogIntervalMilliseconds)
                }
                pause = Self.pauseMillisecondsMax
            }
            do { try await Task.sleep(for: .milliseconds(pause)) } catch { return }
        }
    }

    /// Stores every expiry that is due now, in parts. Answers what could not be stored; the others are.
    @discardableResult
    package func storeWhatIsDue() async throws(StoreFailure) -> [StoreFailure] {
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
            // A few are enough for the log, and the list has a bound.
            if failures.count < Self.driversMax { failures += part.failures }
            request.after = part.next
        } while request.after != nil && !Task.isCancelled
        if failures.isEmpty { overdue.set(0.0) }
        return failures
    }

    /// Until the millisecond after the earliest deadline, in which it has passed.
    private func pauseMilliseconds() async throws(StoreFailure) -> Int64 {
        guard let earliest = try await store.earliestDeadline() else { return Self.pauseMillisecondsMax }
        let left = earliest.advanced(byMilliseconds: 1).milliseconds(since: clock())
        return min(max(left, 1), Self.pauseMillisecondsMax)
    }
}
