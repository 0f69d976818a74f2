// Forwards stored events to an analytics service in the order of their row numbers, each event at least once.
// Forwarding reads committed rows and delays no request. While the service is down, the events wait in the store.
//
// Three kinds of events are not forwarded: events of simulated drivers, events that the service refuses, and events
// deleted before they are read.
//
// The database stores the row number of the last forwarded event, from which a restarted process continues.

package import JourneyModel
package import Logging
package import MetricInstruments
internal import StructuredLogging

extension MetricFamily {
    package static let analyticsLost = MetricFamily(
        "dwell_analytics_lost_total", "Events rejected by analytics, or deleted before being forwarded.")
}

/// The port of the analytics service.
package protocol AnalyticsCapture: Sendable {
    /// Sends these events in one request. Gives up after a timeout.
    func capture(_ events: [FeedEvent]) async -> CaptureOutcome
}

package enum CaptureOutcome: Hashable, Sendable {
    case taken
    /// The service will never accept this request: an event is invalid, or the request has too many events.
    case refused(reason: String)
    /// The service is down, slow or overloaded, or it rejects the API key. If `retryAfterSeconds` is not nil, the
    /// service asks for this pause before the next request.
    case unavailable(reason: String, retryAfterSeconds: Int?)
}

package struct AnalyticsForwarding: Sendable {
    /// The name under which the store keeps the position of analytics in the event feed.
    package static let consumer = "analytics"
    static let idleMilliseconds: Int64 = 1000
    static let batchMax = 200

    private let feed: any EventFeed
    private let capture: any AnalyticsCapture
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let failure: DeliveryFailure

    /// - Parameter failure: records the last failure for the operator page.
    package init(
        feed: any EventFeed, capture: any AnalyticsCapture, clock: @escaping @Sendable () -> Moment, logger: Logger,
        failure: DeliveryFailure = DeliveryFailure()
    ) {
        self.failure = failure
        self.feed = feed
        self.capture = capture
        self.clock = clock
        self.logger = logger
    }

    /// The size of the next request, and the failures so far. These values are not stored, so a new process begins with
    /// the defaults.
    struct Pace: Hashable, Sendable {
        /// The number of events in the next request. Each refusal halves the number, until the invalid event is alone
        /// in a request and can be skipped. Each success doubles the number, up to `batchMax`.
        var batchSize = AnalyticsForwarding.batchMax
        /// Consecutive failures.
        var failureCount = 0
        var logLimit = FailureLogLimit()
    }

    /// Runs until the task is cancelled.
    package func run() async {
        var pace = Pace()
        while !Task.isCancelled {
            let pause = await round(&pace)
            guard pause > 0 else { continue }
            do { try await Task.sleep(for: .milliseconds(pause)) } catch { return }
        }
    }

    /// Sends the next events to the service, in at most one request. Returns the pause before the next round, in
    /// milliseconds.
    func round(_ pace: inout Pace) async -> Int64 {
        do throws(StoreFailure) {
            let position = try await feed.position(of: Self.consumer)
            let events = try await feed.storedEvents(after: position.last, limit: pace.batchSize)
            guard let last = events.last else { return Self.idleMilliseconds }
            // If row numbers are consecutive, a missing number belongs to an event that was deleted before this task
            // read it. Such events count as lost.
            let deletedCount = feed.hasConsecutiveIDs ? last.id - position.last - Int64(events.count) : 0
            return try await forward(
                events, to: last.id, deletedCount: deletedCount, waiting: position.waitingCount, &pace)
        } catch {
            return pause(&pace, reason: "\(error)", waiting: nil, atLeastSeconds: nil)
        }
    }

    private func forward(
        _ events: [FeedEvent], to last: Int64, deletedCount: Int64, waiting: Int64, _ pace: inout Pace
    ) async throws(StoreFailure) -> Int64 {
        // Events of simulated drivers are not sent, and do not count as lost.
        let real = events.filter { !$0.driver.isSimulated }
        switch real.isEmpty ? .taken : await capture.capture(real) {
        case .taken:
            try await feed.move(Self.consumer, to: last, losing: deletedCount, at: clock())
            if pace.failureCount > 0 {
                logger.notice("analytics forwarding resumed", metadata: ["waiting": .number(waiting)])
            }
            pace = Pace(batchSize: min(pace.batchSize * 2, Self.batchMax), logLimit: pace.logLimit)
            return 0
        case .refused(let reason) where real.count == 1:
            logger.error(
                "analytics rejected an event; not forwarded",
                metadata: ["event": .number(last), "reason": "\(reason)"])
            failure.record("refused: \(reason)", at: clock())
            try await feed.move(Self.consumer, to: last, losing: deletedCount + 1, at: clock())
            return 0
        case .refused:
            pace.batchSize = max(events.count / 2, 1)
            return 0
        case .unavailable(let reason, let seconds):
            return pause(&pace, reason: reason, waiting: waiting, atLeastSeconds: seconds)
        }
    }

    /// Returns the pause before the next attempt, in milliseconds. Consecutive failures double the pause, from 1 s to
    /// 60 s. If the service asks for a longer pause, returns that pause.
    ///
    /// A random time of up to half the pause is added to the pause after a failure, so that several servers do not
    /// retry together. Nothing is added to a pause that the service asked for.
    private func pause(_ pace: inout Pace, reason: String, waiting: Int64?, atLeastSeconds: Int?) -> Int64 {
        // A shutdown cancels the read or the request in progress. This is not a failure.
        if Task.isCancelled { return Self.idleMilliseconds }
        let now = clock()
        failure.record(reason, at: now)
        if pace.logLimit.allowsLine(at: now) {
            var metadata: Logger.Metadata = ["reason": "\(reason)"]
            if let waiting { metadata["waiting"] = .number(waiting) }
            logger.warning("analytics forwarding failed; retrying", metadata: metadata)
        }
        let pause = RetryPause.milliseconds(pace.failureCount)
        pace.failureCount += 1
        return max(pause + Int64.random(in: 0...(pause / 2)), RetryPause.milliseconds(askedSeconds: atLeastSeconds))
    }
}
