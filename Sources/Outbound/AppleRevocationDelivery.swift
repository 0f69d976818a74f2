// Revokes the tokens of deleted people at Apple. The queue is in the store, and durable. Nothing is kept here between
// two calls, so a restart needs no handling. Whose tokens they were is not known here.

package import Engine
package import Identity
package import JourneyModel
package import Logging

package struct AppleRevocationDelivery: Sendable {
    /// Poll interval of the queue in milliseconds, while nothing is due.
    static let pauseMilliseconds: Int64 = 1_000
    /// Maximum seconds to wait after a failure: the wait doubles from 2 s to an hour, and retries never end.
    static let retrySecondsMax = 3_600
    /// Minimum milliseconds between two log lines about a persistent failure.
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

    /// Runs until the task is cancelled.
    package func run() async {
        var nextLog = clock()
        while !Task.isCancelled {
            if let failure = await deliverDue() {
                let now = clock()
                self.failure.record(failure, at: now)
                if now >= nextLog {
                    logger.error("revoking an Apple token failed; retrying", metadata: ["failure": "\(failure)"])
                    nextLog = now.advanced(byMilliseconds: Self.failureLogIntervalMilliseconds)
                }
            }
            do { try await Task.sleep(for: .milliseconds(Self.pauseMilliseconds)) } catch { return }
        }
    }

    /// Sends the due revocations one after the other, the earliest due first. Returns a word about the last failure;
    /// nil when there was none.
    func deliverDue() async -> String? {
        var failure: String?
        do throws(AccountFailure) {
            while !Task.isCancelled, let revocation = try await queue.nextDue(at: clock()) {
                failure = try await deliver(revocation) ?? failure
            }
        } catch {
            // The revocation stays in the queue. If Apple has received it already, sending it again has no effect.
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
            // A call cancelled by the server's shutdown does not count as a failure of Apple's.
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
