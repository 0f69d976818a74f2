// Deletes events and their sessions after EVENT_RETENTION_DAYS, audit entries after AUDIT_RETENTION_DAYS, and old
// registered sessions without events. See docs/decisions/retention.md.
//
// A round runs once an hour. It deletes the oldest rows first, in small steps, so that no new event has to wait long.
// While many requests wait for the writer, the pauses between steps are longer.
//
// A round finds the rows to delete in committed rows. It keeps no state of its own, so an interrupted round needs no
// repair.

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

    /// Deletes these events in one transaction, and raises the floors of their drivers. The states and verdicts of the
    /// remaining events never change. Returns the number of deleted events.
    ///
    /// If a driver's deadline has passed but the expiry is not stored yet, the driver's events are kept.
    func delete(_ events: ArraySlice<AgedEvent>) async throws(StoreFailure) -> Int

    /// Returns the sessions that `delete(sessions:openedBefore:)` would delete or change, by row number in ascending
    /// order. Begins after the row number `number`. The result is empty when there are no more such sessions.
    func agedSessions(openedBefore: Moment, after number: Int64, limit: Int) async throws(StoreFailure) -> [Int64]

    /// Deletes sessions that have no event, were opened before `openedBefore`, and are not their driver's current
    /// session. A registered session must also have been registered before `openedBefore`.
    ///
    /// If a journey still names a session, for example as its previous session, the session's row is kept, because the
    /// fold needs it. Only the registration (time, charger, merchant) is deleted, so that clients no longer get the
    /// session.
    ///
    /// Returns the number of sessions whose rows were deleted.
    func delete(sessions: ArraySlice<Int64>, openedBefore: Moment) async throws(StoreFailure) -> Int

    /// Examines the next `limit` sessions with row numbers above `number`. Returns those that were registered before
    /// `before`, have no event and are named by no journey. `AgedNumbers.endsInFuture` of the result compares the last
    /// session's time with `now`.
    func unusedRegistrations(
        before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers

    /// Examines the next `limit` audit entries with row numbers above `number`. Returns the entries written before
    /// `before`. Receipts of deletions are left out, because they are never deleted.
    func agedAuditLines(
        before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers

    /// Deletes these audit entries in one transaction. Returns the number of deleted entries.
    func delete(auditLines: ArraySlice<Int64>) async throws(StoreFailure) -> Int

    /// The number of requests that wait for the writer. If many requests wait, retention makes longer pauses.
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
    /// The current time. Events are read in the order in which they were stored, until an event is too young.
    ///
    /// If an event's receive time is after `now`, the server's clock was ahead when the event was stored. The reading
    /// continues after such an event, because later events may be old enough.
    package var now: Moment
    package var receivedBefore: Moment
    /// All events up to this row number are forwarded to analytics, or need not be forwarded. An event with a higher
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
    /// The row number after which the next part begins. Nil when there are no more events, or when the next events are
    /// too young.
    package var next: Int64?

    package init(events: [AgedEvent], next: Int64?) {
        self.events = events
        self.next = next
    }
}

/// The rows to delete in one part of a table, by row number in ascending order.
package struct AgedNumbers: Hashable, Sendable {
    package var numbers: [Int64]
    /// The row number of the last examined row; nil when no later row is old enough.
    package var next: Int64?
    /// Whether the last examined row has a time in the future, because the server's clock was ahead when the row was
    /// stored. For the same reason, rows of this part may seem too young, so a later round must examine the part again.
    package var endsInFuture: Bool

    package init(numbers: [Int64], next: Int64?, endsInFuture: Bool = false) {
        self.numbers = numbers
        self.next = next
        self.endsInFuture = endsInFuture
    }
}

package struct RetentionService: Sendable {
    /// The minimum of EVENT_RETENTION_DAYS. A phone that was offline for a week sends its events a week late. With
    /// shorter retention, these events could be below the driver's floor, and would then not affect the driver's state.
    package static let daysMin = 7
    package static let daysMax = 36_500
    /// The minimum of AUDIT_RETENTION_DAYS. An intrusion is often found weeks later, and its audit entries must still
    /// exist.
    package static let auditDaysMin = 30
    /// A registered session that still has no event after this number of days is deleted. A phone keeps unsent events
    /// for a shorter time, so no event is expected any more.
    package static let unusedRegistrationDays = 30
    /// The additional days for which an event is kept if it is not forwarded yet. Analytics can therefore be down for a
    /// week without the loss of an event. The time is limited, because otherwise a longer outage could fill the disk.
    package static let unforwardedDays = 7
    static let roundPause = Duration.seconds(3600)
    /// The maximum number of rows per read, enough for all events of a typical drive. These events are neighbours in
    /// the indexes, so deleting them together changes few pages.
    static let partMax = 4096
    /// The maximum number of rows deleted in one step, which is one transaction. The number was measured
    /// (docs/decisions/retention.md).
    package static let stepMax = 64
    /// The pause between two steps, in which new events are processed.
    static let stepPause = Duration.milliseconds(20)
    /// The additional wait between two steps.
    static let writerWait = WriterWait(requestsMax: 32, pause: .milliseconds(50), pausesMax: 10)

    private let store: any RetentionStore
    private let forwarded: @Sendable () async throws(StoreFailure) -> Int64
    private let days: Int?
    private let auditDays: Int?
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let deletedEvents: any CounterHandler
    private let deletedSessions: any CounterHandler
    private let deletedAuditLines: any CounterHandler
    /// The row number up to which registered sessions were checked since the process started. They need no second
    /// check: each session was either deleted, or kept because it has had an event.
    private let registrationsChecked = Place()

    /// - Parameters:
    ///   - days: how many days events are kept after they were received; nil to keep them forever.
    ///   - auditDays: how many days audit entries are kept; nil to keep them forever.
    ///   - forwarded: returns the row number up to which all events are forwarded, or `Int64.max` without forwarding.
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

    /// Deletes all rows that are now older than their retention time. Stops early when the task is cancelled.
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
            // A row that was stored while the clock was ahead may be old enough in the next round. The next round must
            // therefore examine this part again.
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

    private func pause() async {
        try? await Task.sleep(for: Self.stepPause)
        await Self.writerWait.wait { store.writesWaiting }
    }
}

/// The row number up to which a table has been read.
private final class Place: Sendable {
    let number = Atomic<Int64>(0)
}
