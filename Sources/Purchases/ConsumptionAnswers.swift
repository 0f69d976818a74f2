// Answers Apple's requests for consumption information, only with the consent of the purchase's owner. Runs separately
// from the notification route, whose response does not wait for the answer. After a restart, an answer may be sent
// twice, which changes nothing at Apple; the only state is the durable queue.

import Identity
package import JourneyModel

package struct ConsumptionAnswers: Sendable {
    /// How long after its request Apple accepts an answer.
    package static let answerSecondsMax = 12 * 3_600
    /// Poll interval of the queue while nothing is due.
    static let pauseMilliseconds = 1_000
    /// Maximum delay after a failure. Delays double from 8 s up to this, half an hour.
    static let retrySecondsMax = 1_800

    package enum Report: Sendable, Hashable {
        case finished(ConsumptionOutcome)
        /// The attempt failed and will be repeated. `reason` is one word.
        case failed(reason: String)
    }

    private let queue: any ConsumptionQueue
    private let api: (any AppStoreAPI)?
    private let clock: @Sendable () -> Moment
    private let report: @Sendable (Report) -> Void

    /// `api` is nil if it is not configured. Requests with consent then wait for a restart with a configured API, at
    /// most until their deadline.
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

    /// Answers the requests that are due, one after the other, earliest first.
    func answerDue() async {
        do throws(AccountFailure) {
            while !Task.isCancelled, let request = try await queue.nextConsumptionRequest(dueAt: clock()) {
                try await handle(request)
            }
        } catch {
            // The database is unavailable, which is reported elsewhere; the queue is unchanged.
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
                // The call was cancelled by the server's shutdown: not counted as a failed attempt.
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
