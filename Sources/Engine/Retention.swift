// Deletes events and their sessions after EVENT_RETENTION_DAYS, audit entries after AUDIT_RETENTION_DAYS, and old
// registered sessions without events. A round runs once an hour. It deletes the oldest rows first, in steps so small
// that no new event has to wait long. While many requests wait for the writer, the pauses between the steps are longer.
// Each round reads committed rows to find the rows to delete. After an interrupted round, the next round therefore
// starts over without any repair. See docs/decisions/retention.md.

package import CoreMetrics
package import JourneyModel
package import Logging
package import MetricInstruments
import StructuredLogging
internal import Synchronization

extension MetricFamily {
    package static let retentionDeleted = MetricFamily(
        "dwell_retention_deleted_total",
        "Rows deleted by retention: events, sessions without events, and audit entries.")
    package static let oldestEventSeconds = MetricFamily(
        "dwell_oldest_event_age_seconds", "Age of the oldest stored event since receipt; 0 if there is none.")
}

/// The port that finds and deletes old rows.
package protocol RetentionStore: Sendable {
    /// Returns the next events to delete, in the order in which they were stored. Deletes nothing.
    func agedEvents(_ request: AgedEventsRequest) async throws(StoreFailure) -> AgedEvents

    /// Deletes these events, and raises the floors of their drivers (the times at which the folds begin), in one
    /// transaction. The deletion never changes the states and verdicts (results of the fold) of the remaining events.
    /// While a driver has a passed deadline whose expiry event is not stored yet, the driver's events are not deleted.
    /// Returns the number of deleted events.
    func delete(_ events: ArraySlice<AgedEvent>) async throws(StoreFailure) -> Int

    /// Returns the row numbers of the sessions that `delete(sessions:openedBefore:)` would delete or change. Only row
    /// numbers above `number` are returned, in ascending order. An empty array means that no further session qualifies.
    func agedSessions(openedBefore: Moment, after number: Int64, limit: Int) async throws(StoreFailure) -> [Int64]

    /// Deletes sessions that are no longer needed. A session qualifies if it was opened before `openedBefore`, has no
    /// event, and is not its driver's current session. A registered session must also have been registered before
    /// `openedBefore`. If a journey still refers to such a session, for example as the previous one, the session's row
    /// stays for the fold. Only its registration (the time, the charger and the merchant) is then deleted, so that
    /// clients no longer get the session. Returns the number of deleted sessions, not counting those whose row stays.
    func delete(sessions: ArraySlice<Int64>, openedBefore: Moment) async throws(StoreFailure) -> Int

    /// Examines the next `limit` sessions with row numbers above `number`. Returns the sessions that were registered
    /// before `before`, have no event, and to which no journey refers. `now` decides `AgedNumbers.endsInFuture`.
    func unusedRegistrations(
        before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers

    /// Examines the next `limit` audit entries with row numbers above `number`. Returns the entries that were written
    /// before `before`, except receipts of deletions.
    func agedAuditLines(
        before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers

    /// Deletes these audit entries in one transaction. Returns the number of deleted entries.
    func delete(auditLines: ArraySlice<Int64>) async throws(StoreFailure) -> Int

    /// The number of requests that wait for the writer. Retention makes longer pauses when many requests wait.
    var writesWaiting: Int { get }
}

package struct AgedEvent: Hashable, Sendable {
    /// The row number of the event, or on PostgreSQL its position in the feed.
    package var id: Int64
    package var driver: Int64
    /// The event's time in the order of its driver's events.
    package var correctedAt: Moment

    package init(id: Int64, driver: Int64, correctedAt: Moment) {
        self.id = id
        self.driver = driver
        self.correctedAt = correctedAt
    }
}

package struct AgedEventsRequest: Hashable, Sendable {
    /// The current time. Events are read in the order in which they were stored, and the reading normally ends at
    /// events that are too young. An event with a receive time after `now` does not end the reading: the server's clock
    /// was ahead when the event was stored, so later rows may be old.
    package var now: Moment
    package var receivedBefore: Moment
    /// All events up to this row number were forwarded to analytics, or need not be forwarded. An event with a higher
    /// row number is deleted only if it was received before `unforwardedBefore`.
    package var forwarded: Int64
    package var unforwardedBefore: Moment
    /// The row number at which the previous part ended; 0 at the beginning.
    package var after: Int64
    package var limit: Int

    package init(
        now: Moment, receivedBefore: Moment, forwarded: Int64, unforwardedBefore: Moment, after: Int64, limit: Int
    ) {
        self.now = now
        self.receivedBefore = receivedBefore
        self.forwarded = forwarded
        self.unforwardedBefore = unforwardedBefore
        self.after = after
        self.limit = limit
    }
}

package struct AgedEvents: Hashable, Sendable {
    package var events: [AgedEvent]
    /// The row number after which the next part begins; nil when the following events are too young.
    package var next: Int64?

    package init(events: [AgedEvent], next: Int64?) {
        self.events = events
        self.next = next
    }
}

/// The row numbers of the rows to delete in one part of a table, in ascending order.
package struct AgedNumbers: Hashable, Sendable {
    package var numbers: [Int64]
    /// The row number of the last row that was examined; nil when no later row is old enough.
    package var next: Int64?
    /// Whether the time of the last examined row is in the future: the server's clock was ahead when the row was
    /// stored. Rows of this part may then seem too young to delete, although they are old. So this part must be
    /// examined again later.
    package var endsInFuture: Bool

    package init(numbers: [Int64], next: Int64?, endsInFuture: Bool = false) {
        self.numbers = numbers
        self.next = next
        self.endsInFuture = endsInFuture
    }
}

package struct RetentionService: Sendable {
    /// The minimum of EVENT_RETENTION_DAYS. A phone that was offline for a week sends its events a week late. With
    /// fewer days, these events could be below the driver's floor (the time before which events were deleted), and
    /// would have no effect on the driver's state.
    package static let daysMin = 7
    package static let daysMax = 36_500
    /// The minimum number of days for which audit entries are kept, because an intrusion is often found weeks later.
    package static let auditDaysMin = 30
    /// The days for which a registered session may wait for its first event. This is longer than the time for which a
    /// phone keeps unsent events.
    package static let unusedRegistrationDays = 30
    /// An event that is not forwarded yet is kept for this number of additional days. No event is therefore lost if the
    /// analytics service is down for a week. The number is limited, because otherwise a service that never responds
    /// would fill the disk.
    package static let unforwardedDays = 7
    static let roundPause = Duration.seconds(3600)
    /// The maximum number of rows per read. One read usually finds all events of a drive. The events of a drive are
    /// next to each other in the indexes, so deleting them together changes few pages.
    static let partMax = 4096
    /// The maximum number of rows deleted in one step. A step is one transaction. The number was measured
    /// (docs/decisions/retention.md).
    package static let stepMax = 64
    /// The pause after each step. New events are processed during the pause.
    static let stepPause = Duration.milliseconds(20)
    /// Retention slows down if more than this number of requests wait for the writer. Before the next step, it then
    /// waits for `busyPause`, several times if necessary.
    static let busyWrites = 32
    /// The additional pause under load. There are at most `busyPausesMax` of these pauses before a step, so that
    /// retention does not stop under a constant load.
    static let busyPause = Duration.milliseconds(50)
    static let busyPausesMax = 10

    private let store: any RetentionStore
    private let forwarded: @Sendable () async throws(StoreFailure) -> Int64
    private let days: Int?
    private let auditDays: Int?
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let deletedEvents: any CounterHandler
    private let deletedSessions: any CounterHandler
    private let deletedAuditLines: any CounterHandler
    /// The row number up to which registered sessions were checked since the process started. A session that was
    /// checked and not deleted needs no second check: it has had an event, so it cannot count as unused later.
    private let registrationsChecked = Place()

    /// - Parameters:
    ///   - days: the days for which events are kept after they were received; nil to keep them forever.
    ///   - auditDays: the days for which audit entries are kept; nil to keep them forever.
    ///   - forwarded: returns the row number up to which all events are forwarded; `Int64.max` when events need no
    ///     forwarding.
    package init(
        store: any RetentionStore, days: Int?, auditDays: Int? = nil, clock: @escaping @Sendable () -> Moment,
        logger: Logger,
        metrics: any MetricsFactory = NOOPMetricsHandler.instance,
        forwarded: @escaping @Sendable () async throws(StoreFailure) -> Int64 = { .max }
    ) {
        self.store = store
        self.forwarded = forwarded
        self.days = days
        self.auditDays = auditDays
        self.clock = clock
        self.logger = logger
        deletedEvents = metrics.counter(.retentionDeleted, [("what", "events")])
        deletedSessions = metrics.counter(.retentionDeleted, [("what", "sessions")])
        deletedAuditLines = metrics.counter(.retentionDeleted, [("what", "audit_lines")])
    }

    package struct Deleted: Hashable, Sendable {
        package var events = 0
        package var sessions = 0
        package var auditLines = 0

        package init(events: Int = 0, sessions: Int = 0, auditLines: Int = 0) {
            self.events = events
            self.sessions = sessions
            self.auditLines = auditLines
        }
    }

    /// Runs until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            do throws(StoreFailure) {
                let deleted = try await round()
                if deleted != Deleted() {
                    logger.info(
                        "retention deleted expired rows",
                        metadata: [
                            "events": .number(deleted.events), "sessions": .number(deleted.sessions),
                            "audit_lines": .number(deleted.auditLines),
                        ])
                }
            } catch {
                if error != .cancelled {
                    logger.error("retention failed; retrying in an hour", metadata: ["failure": "\(error)"])
                }
            }
            do { try await Task.sleep(for: Self.roundPause) } catch { return }
        }
    }

    /// Deletes all rows that are too old now. Stops early when the task is cancelled.
    package func round() async throws(StoreFailure) -> Deleted {
        var deleted = Deleted()
        if let days { try await deleteEvents(olderThanDays: days, &deleted) }
        deleted.sessions += try await deleteUnusedRegistrations()
        if let auditDays { deleted.auditLines = try await deleteAuditLines(olderThanDays: auditDays) }
        return deleted
    }

    private func deleteEvents(olderThanDays days: Int, _ deleted: inout Deleted) async throws(StoreFailure) {
        let now = clock()
        let cut = now.advanced(bySeconds: -days * 86_400)
        var request = AgedEventsRequest(
            now: now, receivedBefore: cut, forwarded: try await forwarded(),
            unforwardedBefore: cut.advanced(bySeconds: -Self.unforwardedDays * 86_400), after: 0, limit: Self.partMax)
        var next: Int64? = 0
        while let after = next, !Task.isCancelled {
            request.after = after
            let part = try await store.agedEvents(request)
            let events = part.events.sorted { ($0.driver, $0.correctedAt, $0.id) < ($1.driver, $1.correctedAt, $1.id) }
            try await inSteps(events) { (step) throws(StoreFailure) in
                let count = try await store.delete(step)
                deletedEvents.increment(by: Int64(count))
                deleted.events += count
            }
            next = part.next
        }
        deleted.sessions += try await deleteSessions(openedBefore: cut)
    }

    private func deleteUnusedRegistrations() async throws(StoreFailure) -> Int {
        let now = clock()
        let cut = now.advanced(bySeconds: -Self.unusedRegistrationDays * 86_400)
        var count = 0
        var next: Int64? = registrationsChecked.number.load(ordering: .relaxed)
        var areChecked = true
        while let after = next, !Task.isCancelled {
            let part = try await store.unusedRegistrations(before: cut, at: now, after: after, limit: Self.partMax)
            try await inSteps(part.numbers) { (step) throws(StoreFailure) in
                let deleted = try await store.delete(sessions: step, openedBefore: cut)
                deletedSessions.increment(by: Int64(deleted))
                count += deleted
            }
            // A row stored while the clock was ahead may have become deletable by the next round. The next round
            // therefore begins before this part, and not after the last part.
            if part.endsInFuture { areChecked = false }
            if areChecked, let last = part.next { registrationsChecked.number.store(last, ordering: .relaxed) }
            next = part.next
        }
        return count
    }

    private func deleteAuditLines(olderThanDays days: Int) async throws(StoreFailure) -> Int {
        let now = clock()
        let cut = now.advanced(bySeconds: -days * 86_400)
        var count = 0
        var next: Int64? = 0
        while let after = next, !Task.isCancelled {
            let part = try await store.agedAuditLines(before: cut, at: now, after: after, limit: Self.partMax)
            try await inSteps(part.numbers) { (step) throws(StoreFailure) in
                let deleted = try await store.delete(auditLines: step)
                deletedAuditLines.increment(by: Int64(deleted))
                count += deleted
            }
            next = part.next
        }
        return count
    }

    private func deleteSessions(openedBefore cut: Moment) async throws(StoreFailure) -> Int {
        var count = 0
        var last: Int64 = 0
        while !Task.isCancelled {
            let aged = try await store.agedSessions(openedBefore: cut, after: last, limit: Self.partMax)
            guard let end = aged.last else { break }
            try await inSteps(aged) { (step) throws(StoreFailure) in
                let deleted = try await store.delete(sessions: step, openedBefore: cut)
                deletedSessions.increment(by: Int64(deleted))
                count += deleted
            }
            last = end
        }
        return count
    }

    private func inSteps<Row>(
        _ rows: [Row], _ step: (ArraySlice<Row>) async throws(StoreFailure) -> Void
    ) async throws(StoreFailure) {
        var start = rows.startIndex
        while start < rows.endIndex, !Task.isCancelled {
            let end = min(start + Self.stepMax, rows.endIndex)
            try await step(rows[start..<end])
            start = end
            await pause()
        }
    }

    /// Waits between two steps, longer while many requests wait for the writer. Returns early when the task is
    /// cancelled.
    private func pause() async {
        try? await Task.sleep(for: Self.stepPause)
        var pauses = 0
        while store.writesWaiting > Self.busyWrites, pauses < Self.busyPausesMax, !Task.isCancelled {
            try? await Task.sleep(for: Self.busyPause)
            pauses += 1
        }
    }
}

/// The row number up to which a table has been read.
private final class Place: Sendable {
    let number = Atomic<Int64>(0)
}
