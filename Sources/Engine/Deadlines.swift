// The server itself enforces deadlines (contract, section 1), without a request. When a session's grace deadline or
// hard deadline passes, the server stores an expiry. An expiry is an event of source `server` that ends the session.
//
// This file decides when to check for due deadlines. The store finds the due deadlines in committed rows, and stores
// each expiry once. The scheduler keeps no state between checks, so restarts, other instances and clock changes do no
// harm.

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

/// The port of deadlines. For each session whose deadline has passed, `storeExpiries` stores the expiry event that ends
/// the session.
///
/// `EventStore.append` stores expiries too. If the driver's deadline is earlier than the new event, one transaction
/// stores first the expiry and then the event.
package protocol DeadlineStore: Sendable {
    /// Returns the earliest deadline of all drivers, or nil when there is none. The deadline may have passed, because
    /// it remains until its expiry is stored.
    ///
    /// Leaves out drivers whose refold is under way, because the refold may change their deadlines. On PostgreSQL, also
    /// leaves out drivers who need a refold that has not begun.
    func earliestDeadline() async throws(StoreFailure) -> Moment?

    /// Stores the expiries for the deadlines before `request.now`, earliest deadline first, for at most
    /// `request.driversMax` drivers. Returns after the commit.
    ///
    /// Each event is stored exactly once, even when several instances call this method.
    func storeExpiries(_ request: ExpiryRequest) async throws(StoreFailure) -> StoredExpiries
}

/// A request to end at most `driversMax` sessions whose deadline has passed.
package struct ExpiryRequest: Sendable {
    package var now: Moment
    /// The settings for drivers to whom no rule applies. Every event, even an expiry, is stored with the version of its
    /// driver's settings.
    package var settings: VersionedSettings
    /// Nil if there are no rules.
    package var rules: SettingsRules?
    package var driversMax: Int
    /// The cursor that the previous call returned; nil for the first call.
    package var after: DeadlineCursor?

    package init(
        now: Moment, settings: VersionedSettings, rules: SettingsRules? = nil, driversMax: Int,
        after: DeadlineCursor? = nil
    ) {
        self.now = now
        self.settings = settings
        self.rules = rules
        self.driversMax = driversMax
        self.after = after
    }
}

/// A position in the list of deadlines. The list is sorted by time, then by the row number of the driver.
package struct DeadlineCursor: Hashable, Sendable {
    package var deadline: Moment
    package var driver: Int64

    package init(deadline: Moment, driver: Int64) {
        self.deadline = deadline
        self.driver = driver
    }
}

package struct StoredExpiries: Hashable, Sendable {
    /// The drivers whose sessions were ended.
    package var drivers: [DriverID]
    /// The reasons why some sessions could not be ended.
    package var failures: [StoreFailure]
    /// The cursor for the next call; nil when there are no more due deadlines.
    package var next: DeadlineCursor?

    package init(drivers: [DriverID] = [], failures: [StoreFailure] = [], next: DeadlineCursor? = nil) {
        self.drivers = drivers
        self.failures = failures
        self.next = next
    }
}

/// The task that stores the expiry events that are due.
package struct ExpiryScheduler: Sendable {
    /// The maximum time between two queries of the store. It is half a second, because an expiry must be stored within
    /// a second after the deadline.
    ///
    /// The scheduler cannot simply sleep until the earliest deadline. While it sleeps, the clock may be changed, or
    /// another instance may store an earlier deadline.
    package static let pauseMillisecondsMax: Int64 = 500
    /// The maximum number of drivers per call of the store. After a long outage, storing all due expiries in one call
    /// would delay new events.
    package static let driversMax = 64

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
        var logLimit = FailureLogLimit()
        while !Task.isCancelled {
            let pause: Int64
            do throws(StoreFailure) {
                let begun = clock()
                let failures = try await storeDueExpiries()
                if let failure = failures.first { throw failure }
                pause = try await pauseMilliseconds(afterRoundBegunAt: begun)
            } catch {
                if error != .cancelled { failed.increment(by: 1) }
                if error != .cancelled, logLimit.allowsLine(at: clock()) {
                    logger.error("storing due deadlines failed", metadata: ["failure": "\(error)"])
                }
                pause = Self.pauseMillisecondsMax
            }
            do { try await Task.sleep(for: .milliseconds(pause)) } catch { return }
        }
    }

    /// Stores all expiry events that are due now, in several transactions. Returns the failures, or only some of them
    /// if there are very many.
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
        let (inForce, rules) = settings.readWithRules()
        var request = ExpiryRequest(now: now, settings: inForce, rules: rules, driversMax: Self.driversMax)
        repeat {
            let part = try await store.storeExpiries(request)
            stored.increment(by: Int64(part.drivers.count))
            // Limit the list, because a long outage may cause very many failures, and only the first is logged.
            if failures.count < Self.driversMax { failures += part.failures }
            request.after = part.next
        } while request.after != nil && !Task.isCancelled
        if failures.isEmpty { overdue.set(0.0) }
        return failures
    }

    /// Returns the time to wait in milliseconds: until 1 ms after the earliest deadline, but at most
    /// `pauseMillisecondsMax`. The millisecond is added because a deadline is due only after its time.
    ///
    /// If the earliest deadline is before `begun`, the round could not store its expiry, because the expiry must wait,
    /// for example until a refold ends. An immediate new attempt would not help, so the result is
    /// `pauseMillisecondsMax`.
    func pauseMilliseconds(afterRoundBegunAt begun: Moment) async throws(StoreFailure) -> Int64 {
        guard let earliest = try await store.earliestDeadline(), earliest >= begun else {
            return Self.pauseMillisecondsMax
        }
        let left = earliest.advanced(byMilliseconds: 1).milliseconds(since: clock())
        return min(max(left, 1), Self.pauseMillisecondsMax)
    }
}
