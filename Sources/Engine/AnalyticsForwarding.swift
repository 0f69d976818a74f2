// Every stored event goes to an analytics service, oldest first, at least once. It follows committed rows and is in no
// request's way; an outage of the service, of a week too, costs nothing but the wait, because the events stay where
// they are. Time, store and service are passed in; nothing is remembered here that a restart would miss.

package import JourneyModel
package import Logging
internal import Telemetry

/// The port behind which the service is.
package protocol AnalyticsCapture: Sendable {
    /// Hands over some events as one request, bounded in time.
    func capture(_ events: [FeedEvent]) async -> CaptureOutcome
}

package enum CaptureOutcome: Hashable, Sendable {
    case taken
    /// The service will never take this request as it is: one of the events is wrong for it, or they are too many.
    case refused(reason: String)
    /// Try again, not before so many seconds if it said so: it is down, slow, overloaded, or the key is wrong.
    case unavailable(reason: String, retryAfterSeconds: Int?)
}

package struct AnalyticsForwarding: Sendable {
    /// As consumers of the feed are known.
    package static let consumer = "analytics"
    /// What waits is asked for so often while nothing does.
    static let idleMilliseconds: Int64 = 1000
    static let batchMax = 200
    static let pauseMillisecondsMin: Int64 = 1000
    static let pauseMillisecondsMax: Int64 = 60_000
    /// A failure that lasts is told once in this time.
    static let failureLogIntervalMilliseconds: Int64 = 60_000

    private let feed: any EventFeed
    private let capture: any AnalyticsCapture
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let failure: DeliveryFailure

    /// `failure` records each failure.
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

    /// What the rounds so far have taught; lost with the process, and soon learnt again.
    struct Pace: Hashable, Sendable {
        /// Halved when a request is refused, until the event that is to blame stands alone; doubled with each success.
        var batchSize = AnalyticsForwarding.batchMax
        /// In a row.
        var failureCount = 0
        var nextLog: Moment?
    }

    /// Until the task is cancelled.
    package func run() async {
        var pace = Pace()
        while !Task.isCancelled {
            let pause = await round(&pace)
            guard pause > 0 else { continue }
            do { try await Task.sleep(for: .milliseconds(pause)) } catch { return }
        }
    }

    /// One request to the service, if anything waits. Answers how long to pause, in milliseconds.
    func round(_ pace: inout Pace) async -> Int64 {
        do throws(StoreFailure) {
            let place = try await feed.place(of: Self.consumer)
            let events = try await feed.storedEvents(after: place.last, limit: pace.batchSize)
            guard let last = events.last else { return Self.idleMilliseconds }
            // Numbers have no gaps of their own: what is missing was deleted before it was read.
            let deletedCount = last.id - place.last - Int64(events.count)
            return try await forward(
                events, to: last.id, deletedCount: deletedCount, waiting: place.waitingCount, &pace)
        } catch {
            return pause(&pace, reason: "\(error)", waiting: nil, atLeastSeconds: nil)
        }
    }

    private func forward(
        _ events: [FeedEvent], to last: Int64, deletedCount: Int64, waiting: Int64, _ pace: inout Pace
    ) async throws(StoreFailure) -> Int64 {
        // A simulation is nobody's drive. Its events are passed over, not lost.
        let real = events.filter { !$0.driver.isSimulated }
        switch real.isEmpty ? .taken : await capture.capture(real) {
        case .taken:
            try await feed.move(Self.consumer, to: last, losing: deletedCount, at: clock())
            if pace.failureCount > 0 {
                logger.notice("analytics are forwarded again", metadata: ["waiting": .number(waiting)])
            }
            pace = Pace(batchSize: min(pace.batchSize * 2, Self.batchMax), nextLog: pace.nextLog)
            return 0
        case .refused(let reason) where real.count == 1:
            logger.error(
                "analytics refuse an event for good; it is not forwarded",
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

    /// 1, 2, 4 ... 60 s, each up to half as long again by chance, so that many servers do not come back at once.
    private func pause(_ pace: inout Pace, reason: String, waiting: Int64?, atLeastSeconds: Int?) -> Int64 {
        let now = clock()
        failure.record(reason, at: now)
        if pace.nextLog.map({ now >= $0 }) ?? true {
            var metadata: Logger.Metadata = ["reason": "\(reason)"]
            if let waiting { metadata["waiting"] = .number(waiting) }
            logger.warning("analytics are not forwarded", metadata: metadata)
            pace.nextLog = now.advanced(byMilliseconds: Self.failureLogIntervalMilliseconds)
        }
        let doubled = Self.pauseMillisecondsMin << Int64(min(pace.failureCount, 6))
        pace.failureCount += 1
        let pause = min(doubled, Self.pauseMillisecondsMax)
        let asked = Int64(min(max(atLeastSeconds ?? 0, 0), 3600)) * 1000
        return max(pause + Int64.random(in: 0...(pause / 2)), asked)
    }
}
