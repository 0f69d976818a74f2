// Tests of `ConsumptionAnswers`: the data sent to Apple, and when a request is retried or given up.

import Identity
import JourneyModel
import Synchronization
import Testing

@testable import Purchases

@Suite struct ConsumptionAnswersTests {
    /// A queue with one consumption request, a scripted Apple, and a clock that the test advances.
    private final class Scene: ConsumptionQueue, AppStoreAPI {
        struct State {
            var now = start
            var hasConsent = true
            var requestedAt = start
            var attemptCount = 0
            var next = start
            var outcome: ConsumptionOutcome?
            var failure: AppStoreAPIFailure?
            var sent: [ConsumptionRequest] = []
            var reports: [ConsumptionAnswers.Report] = []
        }

        let state = Mutex(State())

        func nextConsumptionRequest(dueAt now: Moment) async throws(AccountFailure) -> ConsumptionRequest? {
            state.withLock { state in
                guard state.outcome == nil, state.next <= now else { return nil }
                return ConsumptionRequest(
                    id: 1, environment: .production, bundleID: "b", transactionID: "7",
                    requestedAt: state.requestedAt, attemptCount: state.attemptCount, hasConsent: state.hasConsent)
            }
        }

        func finish(_ request: Int64, _ outcome: ConsumptionOutcome, at now: Moment) async throws(AccountFailure) {
            state.withLock { $0.outcome = outcome }
        }

        func postpone(_ request: Int64, until next: Moment) async throws(AccountFailure) {
            state.withLock { state in
                state.attemptCount += 1
                state.next = next
            }
        }

        func sendConsumption(of request: ConsumptionRequest) async throws(AppStoreAPIFailure) {
            let failure = state.withLock { state in
                state.sent.append(request)
                return state.failure
            }
            if let failure { throw failure }
        }

        func signedTransaction(_ id: String) async throws(AppStoreAPIFailure) -> String { throw .notFound }
        func notifications(
            _ request: NotificationHistoryRequest
        ) async throws(AppStoreAPIFailure) -> NotificationHistoryPage { throw .notFound }

        func answers(isConfigured: Bool = true) -> ConsumptionAnswers {
            ConsumptionAnswers(
                queue: self, api: isConfigured ? self : nil, clock: { self.state.withLock { $0.now } },
                report: { report in self.state.withLock { $0.reports.append(report) } })
        }

        func change(_ change: (inout State) -> Void) { state.withLock { change(&$0) } }

        var result: State { state.withLock { $0 } }
    }

    private static let away = AppStoreAPIFailure.unavailable(retryAfterSeconds: 1, reason: "status_503")

    @Test("With consent: sent once, and finished")
    func answered() async {
        let scene = Scene()
        await scene.answers().answerDue()
        await scene.answers().answerDue()
        #expect(scene.result.sent.map(\.transactionID) == ["7"])
        #expect(scene.result.outcome == .answered && scene.result.reports == [.finished(.answered)])
    }

    @Test("Without consent nothing is sent, also when Apple had not been reached before it was withdrawn")
    func withoutConsent() async {
        let scene = Scene()
        scene.change { $0.hasConsent = false }
        await scene.answers().answerDue()
        #expect(scene.result.sent == [] && scene.result.outcome == .noConsent)

        let withdrawn = Scene()
        withdrawn.change { $0.failure = Self.away }
        await withdrawn.answers().answerDue()
        withdrawn.change { state in
            (state.failure, state.hasConsent) = (nil, false)
            state.now = state.next
        }
        await withdrawn.answers().answerDue()
        #expect(withdrawn.result.sent.count == 1 && withdrawn.result.outcome == .noConsent)
    }

    @Test("Apple away for twelve hours: retried with growing pauses until then, and never afterwards")
    func away() async {
        let scene = Scene()
        scene.change { $0.failure = Self.away }
        var pauses: [Int64] = []
        while scene.result.outcome == nil {
            await scene.answers().answerDue()
            let state = scene.result
            pauses.append(state.next.milliseconds(since: state.now) / 1000)
            scene.change { $0.now = $0.next }
        }
        #expect(pauses.prefix(10) == [8, 16, 32, 64, 128, 256, 512, 1024, 1800, 1800])
        let state = scene.result
        #expect(state.outcome == .tooLate && state.reports.last == .finished(.tooLate))
        #expect(state.sent.count == state.attemptCount && state.sent.count < 40)
        #expect(state.next == start.advanced(bySeconds: 12 * 3600))
    }

    @Test("An old request, one that Apple does not accept, and a server without the API")
    func others() async {
        let old = Scene()
        old.change { $0.requestedAt = start.advanced(bySeconds: -12 * 3600) }
        await old.answers().answerDue()
        #expect(old.result.sent == [] && old.result.outcome == .tooLate)

        let rejected = Scene()
        rejected.change { $0.failure = .notFound }
        await rejected.answers().answerDue()
        #expect(rejected.result.sent.count == 1 && rejected.result.outcome == .rejected)

        let unconfigured = Scene()
        await unconfigured.answers(isConfigured: false).answerDue()
        #expect(unconfigured.result.outcome == nil)
        #expect(unconfigured.result.reports == [.failed(reason: "not_configured")])
    }
}
