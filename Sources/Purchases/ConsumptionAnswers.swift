// Answers Apple's requests for consumption information, if the owner of the purchase consents. A separate task sends
// the answers, so the notification route responds without waiting for them.
//
// A request stays in the durable queue until its outcome is recorded. If the server stops before that, it may send the
// same answer again after the restart. The second answer has no effect at Apple.

import Identity
package import JourneyModel

package struct ConsumptionAnswers: Sendable {
    /// The number of seconds for which Apple accepts an answer to a request.
    package static let answerSecondsMax = 12 * 3_600
    static let pauseMilliseconds = 1_000
    /// The longest pause after a failed attempt, in seconds. The pause is 8 s after the first failure, and doubles with
    /// each further failure.
    package static let retrySecondsMax = 1_800

    package enum Report: Sendable, Hashable {
        case finished(ConsumptionOutcome)
        /// The attempt failed and will be repeated. `reason` is one word.
        case failed(reason: String)
    }

    private let queue: any ConsumptionQueue
    private let api: (any AppStoreAPI)?
    private let clock: @Sendable () -> Moment
    private let report: @Sendable (Report) -> Void

    /// - Parameter api: nil if the API is not configured. Requests then stay in the queue until a restart configures
    ///   the API or their time limit passes.
    package init(
        queue: any ConsumptionQueue, api: (any AppStoreAPI)?, clock: @escaping @Sendable () -> Moment,
        report: @escaping @Sendable (Report) -> Void
    ) {
        self.queue = queue
        self.api = api
        self.clock = clock
        self.report = report
    }

    /// Runs until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            await answerDue()
            do { try await Task.sleep(for: .milliseconds(Self.pauseMilliseconds)) } catch { return }
        }
    }

    func answerDue() async {
        do throws(AccountFailure) {
            while !Task.isCancelled, let request = try await queue.nextConsumptionRequest(dueAt: clock()) {
                try await handle(request)
            }
        } catch {
            // The database is unavailable. Other code reports this. The queue is unchanged.
        }
    }

    private func handle(_ request: ConsumptionRequest) async throws(AccountFailure) {
        let deadline = request.requestedAt.advanced(bySeconds: Self.answerSecondsMax)
        guard clock() < deadline else { return try await finish(request, .tooLate) }
        guard request.hasConsent else { return try await finish(request, .noConsent) }
        guard let api else { return try await postpone(request, deadline, "not_configured") }
        do throws(AppStoreAPIFailure) {
            try await api.sendConsumption(of: request)
        } catch {
            switch error {
            case .notFound: return try await finish(request, .rejected)
            case .unavailable(_, let reason):
                // A call that the server's shutdown cancelled is not a failed attempt.
                guard !Task.isCancelled else { return }
                return try await postpone(request, deadline, reason)
            }
        }
        try await finish(request, .answered)
    }

    private func finish(
        _ request: ConsumptionRequest, _ outcome: ConsumptionOutcome
    ) async throws(AccountFailure) {
        try await queue.finish(request.id, outcome, at: clock())
        report(.finished(outcome))
    }

    private func postpone(
        _ request: ConsumptionRequest, _ deadline: Moment, _ reason: String
    ) async throws(AccountFailure) {
        let next = clock().advanced(bySeconds: Self.retrySeconds(afterFailures: request.attemptCount + 1))
        try await queue.postpone(request.id, until: min(next, deadline))
        report(.failed(reason: reason))
    }

    static func retrySeconds(afterFailures count: Int) -> Int {
        min(4 << min(max(count, 1), 12), retrySecondsMax)
    }
}
