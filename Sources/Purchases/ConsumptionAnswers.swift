// Answers Apple's requests for consumption information, if the owner of the purchase consents. A separate task sends
// the answers, so the notification route responds without waiting for them.
//
// A request stays in the durable queue until its outcome is recorded. If the server stops between an answer and the
// record of its outcome, it sends the answer again after the restart. The second answer has no effect at Apple.

import Identity
package import JourneyModel

package struct ConsumptionAnswers: Sendable {
    /// The time limit for an answer, in seconds after the request. Apple accepts no answer after that.
    package static let answerSecondsMax = 12 * 3_600
    /// The pause in milliseconds between two reads of the queue while no request is due.
    static let pauseMilliseconds = 1_000
    /// Maximum seconds between a failure and the next attempt. The pause doubles from 8 s up to this maximum, half an
    /// hour.
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

    /// - Parameter api: nil if the API is not configured. Requests then wait in the queue. They are answered if the
    ///   server is restarted with a configured API before their time limit passes.
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
                // If the server's shutdown cancelled the call, this does not count as a failed attempt.
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
