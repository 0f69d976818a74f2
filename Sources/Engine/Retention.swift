// Events are kept for so long, and then deleted (EVENT_RETENTION_DAYS): once an hour, the oldest first, in steps so small
// that no event waits for one, and more slowly while events are coming in. What may go is read from committed rows, so
// that a round that was broken off is simply begun again. See docs/decisions/retention.md.

package import CoreMetrics
package import JourneyModel
package import Logging
internal import Synchronization
internal import Telemetry

/// The port behind which old rows lie.
package protocol RetentionStore: Sendable {
    /// The next events that are to go, in the order in which they were stored; reads only.
    func agedEvents(_ request: AgedEventsRequest) async throws(StoreFailure) -> AgedEvents

    /// Deletes these events, in one transaction with the floors of their drivers' folds: no state and no verdict of
    /// what stays is changed by it, then or later. Answers how many are gone; one whose driver has a deadline that is
    /// due and not stored yet may stay.
    func delete(_ events: ArraySlice<AgedEvent>) async throws(StoreFailure) -> Int

    /// Sessions that were opened before that and may have no events any more, by the store's numbers, behind one of
    /// them and ascending; empty: there are no more.
    func agedSessions(openedBefore: Moment, after number: Int64, limit: Int) async throws(StoreFailure) -> [Int64]

    /// Deletes those of them that have no event, and that no driver's journey names. Answers how many are gone.
    func delete(sessions: ArraySlice<Int64>, openedBefore: Moment) async throws(StoreFailure) -> Int

    /// Sessions that were registered before that time and have had no event, among the next `limit` sessions after that
    /// number.
    func unusedRegistrations(
        before: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers

    /// Lines of the audit from before that time, receipts of deletions not among them, of the next `limit` lines after
    /// that number.
    func agedAuditLines(before: Moment, after number: Int64, limit: Int) async throws(StoreFailure) -> AgedNumbers

    /// Deletes these lines in one transaction. Returns how many were there.
    func delete(auditLines: ArraySlice<Int64>) async throws(StoreFailure) -> Int

    /// Requests in line for the one who writes.
    var writesWaiting: Int { get }
}

package struct AgedEvent: Hashable, Sendable {
    /// The store's numbers.
    package var id: Int64
    package var driver: Int64
    /// Its place in the order.
    package var correctedAt: Moment

    package init(id: Int64, driver: Int64, correctedAt: Moment) {
        self.id = id
        self.driver = driver
        self.correctedAt = correctedAt
    }
}

package struct AgedEventsRequest: Hashable, Sendable {
    package var receivedBefore: Moment
    /// Events above this number are still to be forwarded, and go only when they were received before
    /// `unforwardedBefore`.
    package var forwarded: Int64
    package var unforwardedBefore: Moment
    /// Where the part before ended; 0 at the begin.
    package var after: Int64
    package var limit: Int

    package init(receivedBefore: Moment, forwarded: Int64, unforwardedBefore: Moment, after: Int64, limit: Int) {
        self.receivedBefore = receivedBefore
        self.forwarded = forwarded
        self.unforwardedBefore = unforwardedBefore
        self.after = after
        self.limit = limit
    }
}

package struct AgedEvents: Hashable, Sendable {
    package var events: [AgedEvent]
    /// Nil when nothing is left; else where the next part begins.
    package var next: Int64?

    package init(events: [AgedEvent], next: Int64?) {
        self.events = events
        self.next = next
    }
}

/// Row numbers that may go, ascending, of one part of a table.
package struct AgedNumbers: Hashable, Sendable {
    package var numbers: [Int64]
    /// The last row of the part that was looked at; nil when none of the rows after it is old enough.
    package var next: Int64?

    package init(numbers: [Int64], next: Int64?) {
        self.numbers = numbers
        self.next = next
    }
}

package struct RetentionKeeping: Sendable {
    /// Shorter, and a phone that was off for a week would find its events uncounted when it sends them.
    package static let daysMin = 7
    package static let daysMax = 36_500
    /// An intrusion is often found weeks later.
    package static let auditDaysMin = 30
    /// How long a registered session waits for its first event: longer than a phone keeps events that it cannot send.
    package static let unusedRegistrationDays = 30
    /// What is not forwarded yet waits so much longer: an outage of a week costs analytics nothing, and a service that
    /// never answers does not fill the disk.
    package static let unforwardedDays = 7
    static let roundPause = Duration.seconds(3600)
    /// Read at a time: enough that a drive's events are deleted together, next to each other in the indexes.
    static let partMax = 4096
    /// Rows that a step deletes, in one transaction; measured in docs/decisions/retention.md.
    package static let stepMax = 64
    /// After each step: events come in between.
    static let stepPause = Duration.milliseconds(20)
    /// With more requests than these in line, the next step waits...
    static let busyWrites = 32
    /// ...in these pauses, and no more of them than that: retention must not stand still under a load that stays.
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
    /// Sessions up to this number were looked at since the start: none of them can become an unused one later.
    private let registrationsChecked = Place()

    /// - Parameters:
    ///   - days: how long events are kept after they were received; nil: forever.
    ///   - auditDays: how long lines of the audit are kept; nil: forever.
    ///   - forwarded: the number of the last event that needs no forwarding any more; `Int64.max` when none does.
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
        deletedEvents = metrics.counter(MetricFamilies.retentionDeleted, [("what", "events")])
        deletedSessions = metrics.counter(MetricFamilies.retentionDeleted, [("what", "sessions")])
        deletedAuditLines = metrics.counter(MetricFamilies.retentionDeleted, [("what", "audit_lines")])
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

    /// Until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            do throws(StoreFailure) {
                let deleted = try await round()
                if deleted != Deleted() {
                    logger.info(
                        "retention has deleted what is older than EVENT_RETENTION_DAYS and AUDIT_RETENTION_DAYS",
                        metadata: [
                            "events": .number(deleted.events), "sessions": .number(deleted.sessions),
                            "audit_lines": .number(deleted.auditLines),
                        ])
                }
            } catch {
                if error != .cancelled {
                    logger.error("retention stopped; it goes on in an hour", metadata: ["failure": "\(error)"])
                }
            }
            do { try await Task.sleep(for: Self.roundPause) } catch { return }
        }
    }

    /// Everything that is too old now; less when the task is cancelled.
    package func round() async throws(StoreFailure) -> Deleted {
        var deleted = Deleted()
        if let days { try await deleteEvents(olderThanDays: days, &deleted) }
        deleted.sessions += try await deleteUnusedRegistrations()
        if let auditDays { deleted.auditLines = try await deleteAuditLines(olderThanDays: auditDays) }
        return deleted
    }

    private func deleteEvents(olderThanDays days: Int, _ deleted: inout Deleted) async throws(StoreFailure) {
        let cut = clock().advanced(bySeconds: -days * 86_400)
        var request = AgedEventsRequest(
            receivedBefore: cut, forwarded: try await forwarded(),
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
        let cut = clock().advanced(bySeconds: -Self.unusedRegistrationDays * 86_400)
        var count = 0
        var next: Int64? = registrationsChecked.number.load(ordering: .relaxed)
        while let after = next, !Task.isCancelled {
            let part = try await store.unusedRegistrations(before: cut, after: after, limit: Self.partMax)
            try await inSteps(part.numbers) { (step) throws(StoreFailure) in
                let deleted = try await store.delete(sessions: step, openedBefore: cut)
                deletedSessions.increment(by: Int64(deleted))
                count += deleted
            }
            if let last = part.next { registrationsChecked.number.store(last, ordering: .relaxed) }
            next = part.next
        }
        return count
    }

    private func deleteAuditLines(olderThanDays days: Int) async throws(StoreFailure) -> Int {
        let cut = clock().advanced(bySeconds: -days * 86_400)
        var count = 0
        var next: Int64? = 0
        while let after = next, !Task.isCancelled {
            let part = try await store.agedAuditLines(before: cut, after: after, limit: Self.partMax)
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

    /// Cut short when the task is cancelled.
    private func pause() async {
        try? await Task.sleep(for: Self.stepPause)
        var pauses = 0
        while store.writesWaiting > Self.busyWrites, pauses < Self.busyPausesMax, !Task.isCancelled {
            try? await Task.sleep(for: Self.busyPause)
            pauses += 1
        }
    }
}

/// How far a walk through a table has come.
private final class Place: Sendable {
    let number = Atomic<Int64>(0)
}
