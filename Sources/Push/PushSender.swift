// Sends the entries of the outbox that are due. Each device has at most one notification under way, so its
// notifications are sent in order; different devices do not wait for each other.
//
// Outcomes of attempts are written in groups, so that they seldom delay the writes of events.
//
// An entry that this server reads is reserved for this server until its lease ends. If the process is killed before it
// writes the outcome, the notification is sent again after the lease.

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
    /// Maximum number of notifications under way. With a response time of 100 ms, this allows 5,000 notifications a
    /// second.
    static let inFlightMax = 500
    /// Maximum number of entries per read of the outbox.
    static let readMax = 500
    /// The maximum time, in seconds, from the read of an entry to the beginning of its sending. An entry that has
    /// waited longer is returned to the outbox, because its lease could end before its outcome is written.
    ///
    /// The time is measured from the end of the read. If it were measured from the beginning, no entry would be sent
    /// while a read takes longer than this maximum.
    static let waitSecondsMax = 3
    /// The seconds of a lease that remain for writing the outcome after the longest attempt.
    static let commitSeconds = 2
    static let busyPauseMilliseconds: Int64 = 10
    static let idlePauseMilliseconds: Int64 = 200
    /// If a read returned fewer than `readMax` entries, the next read follows after this pause, in milliseconds.
    static let readPauseMilliseconds: Int64 = 100
    /// The longest pause, in milliseconds, before another attempt (`retryMilliseconds`).
    package static let retryMillisecondsMax =
        Int64(RetryPause.askedSecondsMax) * 1000 + RetryPause.millisecondsMax / 2
    /// Outcomes are written when `commitCount` of them wait, or when the first has waited for `commitMilliseconds`.
    static let commitCount = 500
    static let commitMilliseconds: Int64 = 100
    /// The pause, in milliseconds, after the store failed.
    static let storeRetryMilliseconds: Int64 = 1000
    /// How long, in milliseconds, a stopping server waits for notifications under way.
    static let drainMilliseconds: Int64 = 2000

    package enum Dropped: String, CaseIterable, Sendable {
        /// The notification could not be delivered before it expired.
        case expired
        /// The notification's deadline has changed or no longer exists. Or the notification is for a Live Activity, and
        /// the driver is now in another session.
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

    /// How long this server reserves the entries that it reads, in seconds.
    nonisolated let leaseSeconds: Int

    private let store: any PushStore
    private let delivery: any PushDelivery
    private let texts: CurrentPushTexts
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let failure: DeliveryFailure
    private let sent: [SentKey: any CounterHandler]
    private let dropped: [Dropped: any CounterHandler]

    /// Entries that were read and are not under way yet. The last element is sent first.
    private var ready: [DuePush] = []
    /// When the read of the entries in `ready` ended.
    private var readAt = Moment(millisecondsSinceEpoch: 0)
    private(set) var inFlightCount = 0
    /// Devices for which an entry was read. A device is removed when the entry's outcome has been written.
    private var busyDevices: Set<Int64> = []
    /// Outcomes that are not written yet.
    private var results: [PushResult] = []
    private var firstResultAt: Moment?
    private var readPause: Pause?
    /// The pause after the store failed to write outcomes; nil if the last write succeeded.
    private var commitPause: Pause?
    private var logLimit = FailureLogLimit()
    private var isDraining = false

    /// - Parameter failure: the record of the last failure, which the operator page shows.
    package init(
        store: any PushStore, delivery: any PushDelivery, texts: CurrentPushTexts,
        clock: @escaping @Sendable () -> Moment, logger: Logger, failure: DeliveryFailure = DeliveryFailure(),
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) {
        leaseSeconds = Self.waitSecondsMax + delivery.attemptSecondsMax + Self.commitSeconds
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

    func round() async {
        let now = clock()
        let isFirstOld =
            firstResultAt.map { Pause(from: $0, milliseconds: Self.commitMilliseconds).isOver(at: now) } ?? false
        if results.count >= Self.commitCount || isFirstOld { await commit() }
        // While outcomes cannot be written, no entries are read. Otherwise an entry that was sent could be read and
        // sent again, because its lease has ended and its outcome is not written.
        if ready.isEmpty, commitPause == nil, readPause?.isOver(at: now) ?? true { await read(at: now) }
        sendReady()
    }

    /// Whether no notification is under way and every outcome is written.
    var isIdle: Bool { busyDevices.isEmpty }

    private func read(at now: Moment) async {
        do throws(StoreFailure) {
            let due = try await store.takeDuePushes(
                at: now, limit: Self.readMax, lease: now.advanced(bySeconds: leaseSeconds))
            readPause = due.count < Self.readMax ? Pause(from: now, milliseconds: Self.readPauseMilliseconds) : nil
            busyDevices.formUnion(due.map(\.entry.device))
            ready = due.reversed()
            readAt = clock()
        } catch {
            if error != .cancelled, logLimit.allowsLine(at: now) {
                logger.warning("reading the outbox of notifications failed; retrying", metadata: metadata(of: error))
            }
            readPause = Pause(from: now, milliseconds: Self.storeRetryMilliseconds)
        }
    }

    private func sendReady() {
        while !isDraining, inFlightCount < Self.inFlightMax, let push = ready.popLast() { begin(push) }
    }

    private func begin(_ push: DuePush) {
        let now = clock()
        if push.entry.expiresAt <= now { return drop(push, .expired) }
        if now > readAt.advanced(bySeconds: Self.waitSecondsMax) { return add(push, .putBack) }
        if case .alert(let kind) = push.entry.kind {
            if kind == .graceEnding, !push.isDeadlineRunning { return drop(push, .obsolete) }
            if push.device.push?.notifications.allows(kind) == false { return drop(push, .unwanted) }
        }
        // An entry of another session is not sent: the device may show a Live Activity of the driver's current session,
        // and the entry would end that activity or show an old state in it.
        if push.entry.kind.notificationKind == .liveActivity, push.isInOtherSession { return drop(push, .obsolete) }
        guard let notification = push.notification(texts.read(), at: now) else { return drop(push, .unwanted) }
        inFlightCount += 1
        // The task is unstructured, so that a shutdown does not cancel the sending. A cancelled notification might be
        // delivered, but would have no recorded outcome, and would be sent again.
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
                // If the device registered again while the notification was under way, it is valid and must not be
                // removed.
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

    /// Returns the pause before the next attempt, in milliseconds. It is 1 s after the first failure, and doubles with
    /// each further failure, up to 60 s. It is never shorter than the service asks for.
    ///
    /// A random time is added, at most half of the pause of 1 to 60 s. It spreads the retries of many devices after an
    /// outage.
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

    /// Writes the outcomes. If the write fails, keeps them and writes them later. Until then, only the leases prevent
    /// the notifications from being sent again.
    private func commit() async {
        let now = clock()
        guard !results.isEmpty, commitPause?.isOver(at: now) ?? true else { return }
        let batch = results
        results = []
        firstResultAt = nil
        do throws(StoreFailure) {
            try await store.finish(batch, at: now)
            busyDevices.subtract(batch.map(\.device))
            commitPause = nil
        } catch {
            results = batch + results
            firstResultAt = now
            commitPause = Pause(from: now, milliseconds: Self.storeRetryMilliseconds)
            if logLimit.allowsLine(at: now) {
                logger.warning("writing the outcomes of notifications failed; retrying", metadata: metadata(of: error))
            }
        }
    }

    private func drain() async {
        isDraining = true
        for push in ready { add(push, .putBack) }
        ready = []
        var leftMilliseconds = Self.drainMilliseconds
        while inFlightCount > 0, leftMilliseconds > 0 {
            // The task is cancelled, so Task.sleep would return at once.
            await Task { try? await Task.sleep(for: .milliseconds(Self.busyPauseMilliseconds)) }.value
            leftMilliseconds -= Self.busyPauseMilliseconds
        }
        commitPause = nil
        await commit()
    }

    private func metadata(of failure: StoreFailure) -> Logger.Metadata {
        ["reason": "\(failure)", "waiting": .number(Int64(busyDevices.count))]
    }
}
