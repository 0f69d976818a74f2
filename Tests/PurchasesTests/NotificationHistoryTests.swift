// Tests of `NotificationHistory.run` with a clock that only the task's pauses advance: the first pass, the daily
// passes, and retries.

import Identity
import JourneyModel
import Synchronization
import Testing

@testable import Purchases

@Suite struct NotificationHistoryTests {
    private static let day = 86_400

    /// A scripted Apple that has two pages of notifications for every request, and a purchase service that records the
    /// notifications it receives.
    private final class Apple: AppStoreAPI, PurchaseService {
        struct State {
            var now = start
            var requests: [NotificationHistoryRequest] = []
            var taken: [String] = []
            var pauses: [Duration] = []
            var reports: [NotificationHistory.Report] = []
            /// The number of requests that still fail before one succeeds.
            var failures = 0
            /// The number of further notifications that are rejected as too many. The notifications after them are
            /// accepted.
            var busyAnswers = 0
            var pausesLeft = 0
        }

        let state: Mutex<State>

        init(pauses: Int, failures: Int = 0, busyAnswers: Int = 0) {
            state = Mutex(State(failures: failures, busyAnswers: busyAnswers, pausesLeft: pauses))
        }

        func notifications(
            _ request: NotificationHistoryRequest
        ) async throws(AppStoreAPIFailure) -> NotificationHistoryPage {
            let fails = state.withLock { state in
                state.requests.append(request)
                state.failures -= 1
                return state.failures >= 0
            }
            if fails { throw .unavailable(retryAfterSeconds: 1, reason: "status_503") }
            return request.pageToken == nil
                ? NotificationHistoryPage(signedPayloads: ["one", "forged"], nextPageToken: "2")
                : NotificationHistoryPage(signedPayloads: ["two"], nextPageToken: nil)
        }

        func take(signedPayload: String, at now: Moment) async throws(PurchaseFailure) -> TakenNotification {
            let isBusy = state.withLock { state in
                state.busyAnswers -= 1
                return state.busyAnswers >= 0
            }
            if isBusy { throw .busy }
            if signedPayload == "forged" { throw .refused(.wrongSignature) }
            let isKnown = state.withLock { state in
                defer { state.taken.append(signedPayload) }
                return state.taken.contains(signedPayload)
            }
            let notification = StoreNotification(
                notificationUUID: signedPayload, type: "TEST", subtype: nil, environment: .production, bundleID: "b",
                transaction: nil, renewal: nil, signedDate: now, payload: [])
            return TakenNotification(notification: notification, outcome: isKnown ? .repeated : .taken(owner: nil))
        }

        /// Records the pause and advances the clock. When all planned pauses are used up, throws `CancellationError`,
        /// as if the task was cancelled.
        func pause(_ duration: Duration) throws {
            let isOver = state.withLock { state in
                state.pauses.append(duration)
                state.now = state.now.advanced(bySeconds: Int(duration.components.seconds))
                state.pausesLeft -= 1
                return state.pausesLeft < 0
            }
            if isOver { throw CancellationError() }
        }

        func signedTransaction(_ id: String) async throws(AppStoreAPIFailure) -> String { throw .notFound }
        func sendConsumption(of request: ConsumptionRequest) async throws(AppStoreAPIFailure) { throw .notFound }
        func add(
            signedTransaction: String, signedRenewal: String?, of caller: Caller, at now: Moment
        ) async throws(PurchaseFailure) -> DriverEntitlements { DriverEntitlements([], factCount: 0) }
        func add(
            _ claim: PurchaseClaim, of caller: Caller, at now: Moment
        ) async throws(PurchaseFailure) -> DriverEntitlements { DriverEntitlements([], factCount: 0) }
        func entitlements(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> DriverEntitlements {
            DriverEntitlements([], factCount: 0)
        }
        func appAccountToken(of caller: Caller, at now: Moment) async throws(AccountFailure) -> String { "" }
        func setConsumptionConsent(
            _ isGiven: Bool, of caller: Caller, at now: Moment
        ) async throws(AccountFailure) -> ConsumptionConsent { ConsumptionConsent(isGiven: isGiven, changedAt: now) }
    }

    private func run(_ apple: Apple, newest: Moment?) async -> Apple.State {
        let history = NotificationHistory(
            api: apple, purchases: apple, newest: { newest }, apps: [AppStoreApp(bundleID: "b", appleID: 1)],
            environments: [.production], clock: { apple.state.withLock { $0.now } },
            report: { report in apple.state.withLock { $0.reports.append(report) } },
            sleep: { try apple.pause($0) })
        await history.run()
        return apple.state.withLock { $0 }
    }

    @Test(
        "Everything since the newest stored one at the start; then once a day what Apple could not deliver, each once")
    func daily() async {
        let newest = start.advanced(bySeconds: -2 * Self.day)
        let state = await run(Apple(pauses: 2), newest: newest)
        #expect(state.pauses == Array(repeating: .seconds(Self.day), count: 3))
        #expect(
            state.reports == [
                .filled(stored: 2, known: 2, refused: 2), .filled(stored: 0, known: 2, refused: 1),
                .filled(stored: 0, known: 2, refused: 1),
            ])
        let first = state.requests.filter { $0.pageToken == nil }
        #expect(first.map(\.onlyFailures) == [false, true, true, true])
        #expect(first[0].from == newest.advanced(bySeconds: -3600) && first[0].to == start)
        // Apple retries a notification for three days. A request for the last four days therefore contains every
        // notification for which Apple stopped retrying.
        for (index, request) in first.dropFirst().enumerated() {
            let now = start.advanced(bySeconds: index * Self.day)
            #expect(request.to == now && request.from == now.advanced(bySeconds: -4 * Self.day))
        }
        #expect(state.requests.count == 2 * first.count)
    }

    @Test(
        "A first start reads what Apple keeps; while Apple is away, that is retried after ten minutes from the same moment"
    )
    func away() async {
        let state = await run(Apple(pauses: 2, failures: 2), newest: nil)
        #expect(state.pauses == [.seconds(600), .seconds(600), .seconds(Self.day)])
        #expect(
            state.reports == [
                .failed(reason: "status_503"), .failed(reason: "status_503"),
                .filled(stored: 2, known: 2, refused: 2),
            ])
        let whole = state.requests.filter { !$0.onlyFailures && $0.pageToken == nil }
        #expect(whole.count == 3)
        #expect(whole.allSatisfy { $0.from == start.advanced(bySeconds: -179 * Self.day) })
        #expect(whole.map(\.to) == [0, 600, 1200].map { start.advanced(bySeconds: $0) })
    }

    @Test("A pass that meets a full queue of verifications is repeated after ten minutes; no notification is skipped")
    func busy() async {
        let state = await run(Apple(pauses: 1, busyAnswers: 1), newest: start)
        #expect(state.pauses == [.seconds(600), .seconds(Self.day)])
        #expect(state.reports == [.failed(reason: "busy"), .filled(stored: 2, known: 2, refused: 2)])
        #expect(Set(state.taken) == ["one", "two"])
    }
}
