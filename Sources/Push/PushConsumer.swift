// Reads changes of journeys. If a change causes push notifications, adds them to the outbox. Events are read after
// their commit, so no request waits for this task.
//
// The outbox and the position in the feed of events are written in one transaction. The notifications of each change
// are therefore queued exactly once.

package import CoreMetrics
import Engine
package import JourneyModel
package import Logging
package import MetricInstruments

extension MetricFamily {
    package static let pushQueued = MetricFamily(
        "dwell_push_queued_total", "Notifications added to the outbox, by kind.")
}

package struct PushConsumer: Sendable {
    /// The name under which the store keeps the position of this consumer in the feed of events.
    package static let consumer = "push"
    /// The pause, in milliseconds, when no further events exist. It is short, because a driver must be notified of an
    /// expiry within two seconds.
    static let pauseMilliseconds: Int64 = 200
    /// While no event causes a notification, the position is stored at this interval, in milliseconds. After a restart,
    /// the events since the stored position are read again.
    static let positionMilliseconds: Int64 = 10_000

    private let store: any PushStore
    private let platforms: Set<String>
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let queued: [PushKind: any CounterHandler]

    /// - Parameter platforms: the platforms whose push service is configured. Devices of other platforms get no
    ///   notifications.
    package init(
        store: any PushStore, platforms: Set<String>, clock: @escaping @Sendable () -> Moment, logger: Logger,
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) {
        self.store = store
        self.platforms = platforms
        self.clock = clock
        self.logger = logger
        queued = Dictionary(
            uniqueKeysWithValues: PushKind.allCases.map { kind in
                (kind, metrics.counter(.pushQueued, [("kind", kind.word)]))
            })
    }

    /// The position in memory. It may be ahead of the stored position, but only by events that cause no notification.
    struct Position: Sendable {
        var last: Int64?
        var storedAt: Moment?
        var logLimit = FailureLogLimit()
    }

    /// Runs until the task is cancelled.
    package func run() async {
        var position = Position()
        while !Task.isCancelled {
            var hasMore = false
            do throws(StoreFailure) {
                hasMore = try await round(&position)
            } catch {
                log(error, &position)
            }
            guard !hasMore else { continue }
            do { try await Task.sleep(for: .milliseconds(Self.pauseMilliseconds)) } catch { return }
        }
    }

    /// Reads one page of events and queues the notifications. Returns true if the next round must follow without a
    /// pause: if more events exist, or if another server queued these notifications first.
    func round(_ position: inout Position) async throws(StoreFailure) -> Bool {
        let now = clock()
        let base: Int64
        if let last = position.last {
            base = last
        } else {
            base = try await store.pushPosition(at: now)
            position.storedAt = now
        }
        // If this round fails or another server was faster, `position.last` stays nil. The next round then begins at
        // the stored position.
        position.last = nil
        let page = try await store.pushChanges(
            after: base, since: now.advanced(byMilliseconds: -PushRules.ageMillisecondsMax))
        let entries = page.changes.flatMap { change in
            var change = change
            change.devices.removeAll { !platforms.contains($0.platform) }
            return PushRules.entries(for: change, at: now)
        }
        let isToStore =
            position.storedAt.map { Pause(from: $0, milliseconds: Self.positionMilliseconds).isOver(at: now) } ?? true
        if !entries.isEmpty || isToStore && page.last > base {
            guard try await store.queue(entries, after: base, upTo: page.last, at: now) else { return true }
            position.storedAt = now
            for entry in entries { queued[entry.kind]?.increment(by: 1) }
        }
        position.last = page.last
        return page.hasMore
    }

    private func log(_ failure: StoreFailure, _ position: inout Position) {
        guard failure != .cancelled, position.logLimit.allowsLine(at: clock()) else { return }
        logger.error("queueing notifications failed; retrying", metadata: ["failure": "\(failure)"])
    }
}
