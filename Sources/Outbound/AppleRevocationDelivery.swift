// Revokes the Apple tokens of deleted users. The tokens wait in a queue in the store. An entry of the queue does not
// identify its user. Between two attempts, a revocation is only in the store, so a restart needs no special handling.

package import Engine
package import Identity
package import JourneyModel
package import Logging

package struct AppleRevocationDelivery: Sendable {
    /// The pause between two reads of the queue, in milliseconds, while no revocation is due.
    static let pauseMilliseconds: Int64 = 1_000

    private let queue: any AppleRevocationQueue
    private let apple: AppleTokenEndpoint
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let failure: DeliveryFailure

    /// - Parameter failure: the record of the last failure, which the operator page shows.
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
        var logLimit = FailureLogLimit()
        while !Task.isCancelled {
            if let failure = await deliverDue() {
                let now = clock()
                self.failure.record(failure, at: now)
                if logLimit.allowsLine(at: now) {
                    logger.error("revoking an Apple token failed; retrying", metadata: ["failure": "\(failure)"])
                }
            }
            do { try await Task.sleep(for: .milliseconds(Self.pauseMilliseconds)) } catch { return }
        }
    }

    /// Sends all revocations that are due, one after the other. Returns the reason of the most recent failure: one
    /// word, or the error of the store. Returns nil if there was no failure.
    func deliverDue() async -> String? {
        var failure: String?
        do throws(AccountFailure) {
            while !Task.isCancelled, let revocation = try await queue.nextDue(at: clock()) {
                failure = try await deliver(revocation) ?? failure
            }
        } catch {
            // The store failed, so the revocation stays in the queue and is sent again. If Apple has already received
            // the revocation, the second one has no effect.
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
            // An attempt that the server's shutdown cancelled does not count as a failed attempt.
            guard !Task.isCancelled else { return nil }
            let seconds = Self.retrySeconds(afterFailures: revocation.attemptCount + 1)
            try await queue.failed(revocation.id, tryAgainAt: clock().advanced(bySeconds: seconds))
            return reason
        }
    }

    /// Returns the pause between a failure and the next attempt. The pause starts at 2 s and doubles up to
    /// `AppleRevocation.retrySecondsMax`. The number of attempts has no limit.
    static func retrySeconds(afterFailures count: Int) -> Int {
        min(1 << min(max(count, 1), 12), AppleRevocation.retrySecondsMax)
    }
}
