// Tells Apple, sooner or later, that the tokens of deleted people are to be revoked. The queue is the store's, and durable;
// nothing is remembered here between two calls, so that a restart needs no care. It refuses to know who they were.

package import Engine
package import Identity
package import JourneyModel
package import Logging

package struct AppleRevocationDelivery: Sendable {
    /// How often the queue is looked at while nothing in it is due.
    static let pauseMilliseconds: Int64 = 1_000
    /// After a failure: 2 s, then 4, up to an hour, for as long as it takes.
    static let retrySecondsMax = 3_600
    /// A failure that lasts is told once in this time.
    static let failureLogIntervalMilliseconds: Int64 = 60_000

    private let queue: any AppleRevocationQueue
    private let apple: AppleTokenEndpoint
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let failure: DeliveryFailure

    /// `failure` records each failure.
    package init(
        queue: any AppleRevocationQueue, apple: AppleTokenEndpoint, clock: @escaping @Sendable () -> Moment,
        logger: Logger, failure: DeliveryFailure = DeliveryFailure()
    ) {
        self.failure = failure
        self.queue = queue
        self.apple = apple
        self.clock = clock
        self.logger = logger
    }

    /// Until the task is cancelled.
    package func run() async {
        var nextLog = clock()
        while !Task.isCancelled {
            if let failure = await deliverWhatIsDue() {
                let now = clock()
                self.failure.record(failure, at: now)
                if now >= nextLog {
                    logger.error("Apple is not told of a deletion yet", metadata: ["failure": "\(failure)"])
                    nextLog = now.advanced(byMilliseconds: Self.failureLogIntervalMilliseconds)
                }
            }
            do { try await Task.sleep(for: .milliseconds(Self.pauseMilliseconds)) } catch { return }
        }
    }

    /// One after the other, the first due first. Answers a word about the last failure; nil when there was none.
    func deliverWhatIsDue() async -> String? {
        var failure: String?
        do throws(AccountFailure) {
            while !Task.isCancelled, let revocation = try await queue.nextDue(at: clock()) {
                failure = try await deliver(revocation) ?? failure
            }
        } catch {
            // The queue stays as it is: what Apple was told already, it is told again, which changes nothing there.
            failure = "\(error)"
        }
        return failure
    }

    private func deliver(_ revocation: AppleRevocation) async throws(AccountFailure) -> String? {
        switch await apple.revoke(revocation) {
        case .done, .unknownToken:
            try await queue.delivered(revocation.id, at: clock())
            return nil
        case .failed(let reason):
            // The end of the server is no failure of Apple's.
            guard !Task.isCancelled else { return nil }
            let seconds = Self.retrySeconds(afterFailures: revocation.attemptCount + 1)
            try await queue.failed(revocation.id, tryAgainAt: clock().advanced(bySeconds: seconds))
            return reason
        }
    }

    static func retrySeconds(afterFailures count: Int) -> Int {
        min(1 << min(max(count, 1), 12), retrySecondsMax)
    }
}
