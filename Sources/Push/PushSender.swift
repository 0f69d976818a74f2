// Sends the entries of the outbox that are due. Each device has at most one notification under way, so its
// notifications arrive in order; different devices do not wait for each other. Outcomes are written in groups, so that
// events do not wait for them. A notification whose outcome was not written when the process was killed is sent again
// after its lease.

package import CoreMetrics
package import Engine
import Identity
package import JourneyModel
package import Logging
package import MetricInstruments
import StructuredLogging

extension MetricFamily {
    package static let pushSent = MetricFamily(
        "dwell_push_sent_total", "Attempts to send a notification, by kind and outcome.")
    package static let pushDropped = MetricFamily(
        "dwell_push_dropped_total", "Notifications removed from the outbox undelivered, by reason.")
}

package actor PushSender {
    /// Maximum number of notifications under way. With a response time of 100 ms, 5,000 a second can be sent.
    static let inFlightMax = 500
    /// Maximum number of entries per read of the outbox.
    static let readMax = 500
    /// How long an entry that was read is kept from other servers. Entries are read only when all entries read before
    /// are under way, so an entry waits for at most one other notification before it is sent. A notification takes at
    /// most ten seconds.
    static let leaseSeconds = 25
    /// The pause between two rounds while notifications are under way, and while none is.
    static let busyPauseMilliseconds: Int64 = 10
    static let idlePauseMilliseconds: Int64 = 200
    /// The pause between two reads of the outbox if the last one returned fewer than `readMax` entries.
    static let readPauseMilliseconds: Int64 = 100
    /// Outcomes are written when this many wait, or when the first of them has waited this long.
    static let commitCount = 500
    static let commitMilliseconds: Int64 = 100
    /// The pause after the store failed.
    static let storeRetryMilliseconds: Int64 = 1000
    /// How long a stopping server waits for the outcomes of notifications under way.
    static let drainMilliseconds: Int64 = 2000

    package enum Dropped: String, CaseIterable, Sendable {
        /// The notification could not be delivered before it was worthless.
        case expired
        /// The deadline that the notification announces no longer runs.
        case obsolete
        /// The driver no longer wants the notification, or the device has no push service or no Live Activity any more.
        case unwanted
        case refused
        /// The device no longer has the app.
        case unregistered
    }

    private enum Outcome: String, CaseIterable {
        case delivered, unregistered, unavailable, refused
    }

    private struct SentKey: Hashable {
        var kind: PushKind
        var outcome: Outcome
    }

    private let store: any PushStore
    private let delivery: any PushDelivery
    private let texts: CurrentPushTexts
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let failure: DeliveryFailure
    private let sent: [SentKey: any CounterHandler]
    private let dropped: [Dropped: any CounterHandler]

    /// Entries that were read and are not under way yet, the last one first.
    private var ready: [DuePush] = []
    private(set) var inFlightCount = 0
    /// Devices with an entry that was read and whose outcome is not written yet.
    private var busyDevices: Set<Int64> = []
    /// Outcomes that are not written yet.
    private var results: [PushResult] = []
    private var firstResultAt: Moment?
    private var nextRead: Moment?
    private var nextCommit: Moment?
    private var logLimit = FailureLogLimit()
    private var isDraining = false

    /// - Parameter failure: the record of the last failure, which the operator page shows.
    package init(
        store: any PushStore, delivery: any PushDelivery, texts: CurrentPushTexts,
        clock: @escaping @Sendable () -> Moment, logger: Logger, failure: DeliveryFailure = DeliveryFailure(),
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) {
        self.store = store
        self.delivery = delivery
        self.texts = texts
        self.clock = clock
        self.logger = logger
        self.failure = failure
        var sent: [SentKey: any CounterHandler] = [:]
        for kind in PushKind.allCases {
            for outcome in Outcome.allCases {
                sent[SentKey(kind: kind, outcome: outcome)] = metrics.counter(
                    .pushSent, [("kind", kind.word), ("outcome", outcome.rawValue)])
            }
        }
        self.sent = sent
        dropped = Dictionary(
            uniqueKeysWithValues: Dropped.allCases.map { reason in
                (reason, metrics.counter(.pushDropped, [("reason", reason.rawValue)]))
            })
    }

    /// Runs until the task is cancelled. Then waits a short time for the notifications under way.
    package func run() async {
        while !Task.isCancelled {
            await round()
            let pause = busyDevices.isEmpty ? Self.idlePauseMilliseconds : Self.busyPauseMilliseconds
            do { try await Task.sleep(for: .milliseconds(pause)) } catch { break }
        }
        await drain()
    }

    /// Writes the outcomes that have waited long enough. If all entries read before are under way, reads due entries.
    /// Then begins to send the entries that were read.
    func round() async {
        let now = clock()
        let isFirstOld = firstResultAt.map { now.milliseconds(since: $0) >= Self.commitMilliseconds } ?? false
        if results.count >= Self.commitCount || isFirstOld { await commit() }
        // Only the leases keep entries whose outcomes are not written from being read and sent again. After an outage
        // of the store the leases may have ended, so the outcomes are written before entries are read.
        if ready.isEmpty, nextCommit == nil, nextRead.map({ now >= $0 }) ?? true { await read(at: now) }
        sendReady()
    }

    /// Whether no notification is under way and every outcome is written.
    var isIdle: Bool { busyDevices.isEmpty }

    private func read(at now: Moment) async {
        do throws(StoreFailure) {
            let due = try await store.takeDuePushes(
                at: now, limit: Self.readMax, lease: now.advanced(bySeconds: Self.leaseSeconds))
            nextRead = due.count < Self.readMax ? now.advanced(byMilliseconds: Self.readPauseMilliseconds) : nil
            busyDevices.formUnion(due.map(\.entry.device))
            ready = due.reversed()
        } catch {
            log("reading the outbox of notifications failed; retrying", "\(error)", at: now)
            nextRead = now.advanced(byMilliseconds: Self.storeRetryMilliseconds)
        }
    }

    private func sendReady() {
        while !isDraining, inFlightCount < Self.inFlightMax, let push = ready.popLast() { begin(push) }
    }

    private func begin(_ push: DuePush) {
        let now = clock()
        if push.entry.expiresAt <= now { return drop(push, .expired) }
        if case .alert(let kind) = push.entry.kind {
            if kind == .graceEnding, !push.isDeadlineRunning { return drop(push, .obsolete) }
            if push.device.push?.notifications.allows(kind) == false { return drop(push, .unwanted) }
        }
        guard let notification = push.notification(texts.read(), at: now) else { return drop(push, .unwanted) }
        inFlightCount += 1
        // A task of its own, so that the shutdown does not cancel a notification under way. Such a notification may be
        // delivered already, and would be sent again after the restart.
        Task { [delivery] in
            self.finished(push, await delivery.send(notification), sentAt: now)
        }
    }

    private func finished(_ push: DuePush, _ outcome: PushOutcome, sentAt: Moment) {
        inFlightCount -= 1
        defer { sendReady() }
        switch outcome {
        case .delivered:
            count(push, .delivered)
            let change: PushResult.Change =
                if push.entry.kind == .activityEnd, let token = push.device.push?.liveActivityToken {
                    .removeLiveActivity(token: token)
                } else { .remove }
            add(push, change)
        case .unregistered(let since):
            count(push, .unregistered)
            dropped[.unregistered]?.increment(by: 1)
            if push.entry.kind.notificationKind == .liveActivity, let token = push.device.push?.liveActivityToken {
                add(push, .removeLiveActivity(token: token))
            } else {
                // A device that registered again while the notification was under way is valid.
                add(push, .removeDevice(registeredBefore: since ?? sentAt))
            }
        case .unavailable(let reason, let seconds):
            count(push, .unavailable)
            let now = clock()
            failure.record(reason, at: now)
            let next = now.advanced(byMilliseconds: Self.retryMilliseconds(push.attemptCount, atLeastSeconds: seconds))
            if next < push.entry.expiresAt { add(push, .retry(at: next)) } else { drop(push, .expired) }
        case .refused(let reason):
            count(push, .refused)
            failure.record("refused: \(reason)", at: clock())
            drop(push, .refused)
        }
    }

    /// Returns the pause before the next attempt: 1, 2, 4 ... 60 s, or longer if the service asks for it. A random time
    /// of up to half of the first of these two pauses is added, so that devices that failed in one outage are not
    /// retried together.
    static func retryMilliseconds(_ failureCount: Int, atLeastSeconds: Int?) -> Int64 {
        let pause = RetryPause.milliseconds(failureCount)
        return max(pause, RetryPause.milliseconds(askedSeconds: atLeastSeconds)) + Int64.random(in: 0...(pause / 2))
    }

    private func count(_ push: DuePush, _ outcome: Outcome) {
        sent[SentKey(kind: push.entry.kind, outcome: outcome)]?.increment(by: 1)
    }

    private func drop(_ push: DuePush, _ reason: Dropped) {
        dropped[reason]?.increment(by: 1)
        add(push, .remove)
    }

    private func add(_ push: DuePush, _ change: PushResult.Change) {
        results.append(PushResult(id: push.id, device: push.entry.device, change: change))
        if firstResultAt == nil { firstResultAt = clock() }
    }

    /// Writes the outcomes. If that fails, they are written later. Until then, only their leases keep the entries from
    /// being sent again.
    private func commit() async {
        let now = clock()
        guard !results.isEmpty, nextCommit.map({ now >= $0 }) ?? true else { return }
        let batch = results
        results = []
        firstResultAt = nil
        do throws(StoreFailure) {
            try await store.finish(batch, at: now)
            busyDevices.subtract(batch.map(\.device))
            nextCommit = nil
        } catch {
            results = batch + results
            firstResultAt = now
            nextCommit = now.advanced(byMilliseconds: Self.storeRetryMilliseconds)
            log("writing the outcomes of notifications failed; retrying", "\(error)", at: now)
        }
    }

    private func drain() async {
        isDraining = true
        let now = clock()
        for push in ready { add(push, .retry(at: now)) }
        ready = []
        var leftMilliseconds = Self.drainMilliseconds
        while inFlightCount > 0, leftMilliseconds > 0 {
            // The task is cancelled, so Task.sleep would return at once.
            await Task { try? await Task.sleep(for: .milliseconds(Self.busyPauseMilliseconds)) }.value
            leftMilliseconds -= Self.busyPauseMilliseconds
        }
        nextCommit = nil
        await commit()
    }

    private func log(_ message: Logger.Message, _ reason: String, at now: Moment) {
        guard logLimit.allowsLine(at: now) else { return }
        logger.warning(message, metadata: ["reason": "\(reason)", "waiting": .number(Int64(busyDevices.count))])
    }
}
