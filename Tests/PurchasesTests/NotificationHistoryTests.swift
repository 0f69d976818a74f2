// Tests of `NotificationHistory.run`: the first pass, the daily passes, retries, and what was read before a restart.
// Only the task's pauses advance the clock.

import Identity
import JourneyModel
import Synchronization
import Testing

@testable import Purchases

@Suite struct NotificationHistoryTests {
    private static let day = 86_400
    private static let production = NotificationSource(environment: .production, bundleID: "b")
    private static let sandbox = NotificationSource(environment: .sandbox, bundleID: "b")

    /// Three things in one:
    ///
    /// - a scripted Apple that has two pages of notifications for every request
    /// - a purchase service that records the notifications it receives
    /// - the stored times up to which the history was read
    private final class Apple: AppStoreAPI, PurchaseService, NotificationHistoryProgress {
        struct State {
            var now = start
            var readTo: [NotificationSource: Moment] = [:]
            var requests: [NotificationHistoryRequest] = []
            var taken: [String] = []
            var pauses: [Duration] = []
            var reports: [NotificationHistory.Report] = []
            /// For each environment, how many more requests fail.
            var failures: [AppStoreEnvironment: Int] = [:]
            /// The environments whose second page fails.
            var brokenSecondPages: Set<AppStoreEnvironment> = []
            /// If set, requests whose `to` is later than this time fail.
            var reachableTo: Moment?
            /// The environments where Apple has no history of the app.
            var unavailable: Set<AppStoreEnvironment> = []
            /// Whether every page names a next page.
            var isEndless = false
            /// How many more notifications the service rejects as `.busy`.
            var busyAnswers = 0
            var pausesLeft = 0

            /// The requests for the first pages, of one environment.
            func first(_ environment: AppStoreEnvironment = .production) -> [NotificationHistoryRequest] {
                requests.filter { $0.pageToken == nil && $0.environment == environment }
            }

            func results(_ environment: AppStoreEnvironment = .production) -> [NotificationHistory.Report.Result] {
                reports.filter { $0.source.environment == environment }.map(\.result)
            }
        }

        let state: Mutex<State>

        init(pauses: Int, _ change: (inout sending State) -> Void = { _ in }) {
            var state = State(pausesLeft: pauses)
            change(&state)
            self.state = Mutex(state)
        }

        func historyReadTo(of source: NotificationSource) async throws(AccountFailure) -> Moment? {
            state.withLock { $0.readTo[source] }
        }

        func record(historyReadTo time: Moment, of source: NotificationSource) async throws(AccountFailure) {
            state.withLock { $0.readTo[source] = time }
        }

        func notifications(
            _ request: NotificationHistoryRequest
        ) async throws(AppStoreAPIFailure) -> NotificationHistoryPage {
            let (fails, isAvailable, isEndless) = state.withLock { state in
                state.requests.append(request)
                let left = state.failures[request.environment] ?? 0
                state.failures[request.environment] = left - 1
                let isBroken =
                    request.pageToken != nil && state.brokenSecondPages.contains(request.environment)
                    || state.reachableTo.map { request.to > $0 } ?? false
                return (left > 0 || isBroken, !state.unavailable.contains(request.environment), state.isEndless)
            }
            if fails { throw .unavailable(retryAfterSeconds: 1, reason: "status_503") }
            guard isAvailable else {
                return NotificationHistoryPage(signedPayloads: [], nextPageToken: nil, isAvailable: false)
            }
            return request.pageToken == nil || isEndless
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

        /// Records the pause and advances the clock. After the last planned pause, throws `CancellationError`, as if
        /// the task was cancelled.
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

    private func run(_ apple: Apple, _ environments: Set<AppStoreEnvironment> = [.production]) async -> Apple.State {
        let history = NotificationHistory(
            api: apple, purchases: apple, progress: apple, apps: [AppStoreApp(bundleID: "b", appleID: 1)],
            environments: environments, clock: { apple.state.withLock { $0.now } },
            report: { report in apple.state.withLock { $0.reports.append(report) } },
            sleep: { try apple.pause($0) })
        await history.run()
        return apple.state.withLock { $0 }
    }

    private static func ago(_ days: Int, _ seconds: Int = 0) -> Moment {
        start.advanced(bySeconds: -days * day - seconds)
    }

    @Test("Everything since the last pass at the start; then once a day what Apple could not deliver, each once")
    func daily() async {
        let state = await run(Apple(pauses: 2) { $0.readTo[Self.production] = Self.ago(2) })
        #expect(state.pauses == Array(repeating: .seconds(Self.day), count: 3))
        #expect(
            state.results() == [
                .filled(stored: 2, known: 6, refused: 4), .filled(stored: 0, known: 2, refused: 1),
                .filled(stored: 0, known: 2, refused: 1),
            ])
        let first = state.first()
        #expect(first.map(\.onlyFailures) == [true, false, false, false, true, true])
        #expect(
            first.map(\.to) == [
                Self.ago(2), Self.ago(1, 3600), Self.ago(0, 3600), Self.ago(0), Self.ago(-1), Self.ago(-2),
            ])
        // Apple repeats a delivery for up to 157 hours. A span that begins seven days before the last pass therefore
        // contains every notification that Apple may have repeated since that pass.
        #expect(
            first.map(\.from) == [
                Self.ago(9), Self.ago(2, 3600), Self.ago(1, 3600), Self.ago(0, 3600), Self.ago(7), Self.ago(6),
            ])
        #expect(state.requests.count == 2 * first.count)
        #expect(state.readTo == [Self.production: Self.ago(-2)])
    }

    @Test(
        "A first start reads what Apple keeps; while Apple is away, that is retried after ten minutes from the same moment"
    )
    func away() async {
        let state = await run(Apple(pauses: 2) { $0.failures[.production] = 2 })
        #expect(state.pauses == [.seconds(600), .seconds(600), .seconds(Self.day)])
        #expect(
            state.results() == [
                .failed(reason: "status_503"), .failed(reason: "status_503"),
                .filled(stored: 2, known: 356, refused: 179),
            ])
        let first = state.first()
        #expect(first.allSatisfy { !$0.onlyFailures })
        #expect(first.prefix(3).map(\.from) == [0, 600, 1200].map { Self.ago(179, -$0) })
        // The third pass reads the 179 days one by one.
        let days = Array(first.dropFirst(2))
        #expect(days.count == 179)
        #expect(days.allSatisfy { $0.to.milliseconds(since: $0.from) == Int64(Self.day * 1000) })
        #expect(zip(days, days.dropFirst()).allSatisfy { $0.to == $1.from })
        #expect(days.last?.to == Self.ago(0, -1200))
    }

    @Test("Apple refuses requests for the sandbox that begin more than 30 days ago; those for production may")
    func sandbox() async {
        let both: Set<AppStoreEnvironment> = [.production, .sandbox]
        let first = await run(Apple(pauses: 0), both)
        #expect(first.first(.production).map(\.from).first == Self.ago(179))
        #expect(first.first(.sandbox).map(\.from).first == Self.ago(29))
        #expect(first.readTo == [Self.production: start, Self.sandbox: start])
        let later = await run(
            Apple(pauses: 0) { state in
                for source in [Self.production, Self.sandbox] { state.readTo[source] = Self.ago(100) }
            }, both)
        #expect(later.first(.production).map(\.from).prefix(2) == [Self.ago(107), Self.ago(100, 3600)])
        #expect(later.first(.sandbox).map(\.from).first == Self.ago(29))
    }

    @Test("A source that fails is read again alone, and does not delay the others")
    func apart() async {
        let apple = Apple(pauses: 3) { state in
            state.failures[.production] = 2
            for source in [Self.production, Self.sandbox] { state.readTo[source] = Self.ago(1) }
        }
        let state = await run(apple, [.production, .sandbox])
        #expect(state.pauses.prefix(3) == [.seconds(600), .seconds(600), .seconds(Self.day - 1200)])
        #expect(state.results(.production).prefix(2) == Array(repeating: .failed(reason: "status_503"), count: 2)[...])
        #expect(state.results(.production).count == 3)
        #expect(state.results(.sandbox).count == 2)
        #expect(state.first(.sandbox).map(\.to) == [Self.ago(1), Self.ago(0, 3600), Self.ago(0), Self.ago(-1)])
        #expect(state.first(.sandbox).map(\.onlyFailures) == [true, false, false, true])
        #expect(state.readTo[Self.production] == start.advanced(bySeconds: 1200))
        #expect(state.readTo[Self.sandbox] == start.advanced(bySeconds: Self.day))
    }

    @Test("A part that was not read to its end is read again from its beginning, also after a restart")
    func interrupted() async {
        let apple = Apple(pauses: 1) { state in
            state.readTo[Self.production] = Self.ago(20)
            state.brokenSecondPages = [.production]
        }
        // Both attempts of the run fail at the second page. Each attempt has stored the notification of the first page.
        let state = await run(apple)
        #expect(state.taken == ["one", "one"] && state.results().count == 2)
        #expect(state.readTo == [Self.production: Self.ago(20)])
        apple.state.withLock { state in
            state.brokenSecondPages = []
            state.requests = []
        }
        let restarted = await run(apple)
        #expect(restarted.first().map(\.from).prefix(2) == [Self.ago(27), Self.ago(20, 3600)])
        #expect(Set(restarted.taken) == ["one", "two"])
        #expect(restarted.readTo[Self.production].map { $0 > start } == true)
    }

    @Test("An interrupted first pass goes on after the last day that it has read, also after a restart")
    func continued() async {
        let apple = Apple(pauses: 1) { $0.reachableTo = Self.ago(100) }
        let state = await run(apple)
        #expect(state.results() == Array(repeating: .failed(reason: "status_503"), count: 2))
        #expect(state.readTo == [Self.production: Self.ago(100)])
        // The first pass fails on its 80th day. The second pass first reads the undelivered notifications of the seven
        // days before that day, and then fails on the same day.
        let first = state.first()
        #expect(first.count == 82)
        #expect(first.suffix(2).map(\.from) == [Self.ago(107), Self.ago(100, 3600)])
        apple.state.withLock { state in
            state.reachableTo = nil
            state.requests = []
        }
        let restarted = await run(apple)
        #expect(restarted.first().map(\.from).prefix(2) == [Self.ago(107), Self.ago(100, 3600)])
        #expect(restarted.readTo[Self.production].map { $0 > start } == true)
    }

    @Test("Without a history of the app at Apple, nothing counts as read, and Apple is asked again after a day")
    func notAvailable() async {
        let apple = Apple(pauses: 1) { state in
            state.unavailable = [.production]
            state.readTo[Self.production] = Self.ago(3)
        }
        let state = await run(apple)
        #expect(state.results() == [.notAvailable, .notAvailable])
        #expect(state.pauses == Array(repeating: .seconds(Self.day), count: 2))
        #expect(state.first().map(\.from) == Array(repeating: Self.ago(10), count: 2))
        #expect(state.readTo == [Self.production: Self.ago(3)])
    }

    @Test("A history that does not end was not read to its end")
    func endless() async {
        let state = await run(Apple(pauses: 0) { $0.isEndless = true })
        #expect(state.results() == [.failed(reason: "endless")])
        #expect(state.readTo.isEmpty)
    }

    @Test("A time that a wrong clock recorded in the future skips nothing from now on")
    func wrongClock() async {
        let state = await run(Apple(pauses: 0) { $0.readTo[Self.production] = Self.ago(-400) })
        #expect(state.first().map(\.from) == [Self.ago(7), Self.ago(0, 3600)])
        #expect(state.readTo == [Self.production: start])
    }

    @Test("A pass that meets a full queue of verifications is repeated after ten minutes; no notification is skipped")
    func busy() async {
        let apple = Apple(pauses: 1) { state in
            state.busyAnswers = 1
            state.readTo[Self.production] = start
        }
        let state = await run(apple)
        #expect(state.pauses == [.seconds(600), .seconds(Self.day)])
        #expect(state.results() == [.failed(reason: "busy"), .filled(stored: 2, known: 2, refused: 2)])
        #expect(Set(state.taken) == ["one", "two"])
    }
}
