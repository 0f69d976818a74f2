// Fetches from Apple the notifications that this server missed. Runs when the server starts and then daily. Each
// notification is processed as if Apple had just sent it, so a notification that is already stored has no second
// effect.

package import JourneyModel

package struct NotificationHistory: Sendable {
    /// Maximum age in days of the requested notifications. Apple keeps notifications for 180 days.
    static let daysMax = 179
    /// Notifications that Apple could not deliver are requested if they are at most this many days old. Apple retries a
    /// delivery for three days.
    static let failureDays = 4
    static let intervalSeconds = 86_400
    static let retrySeconds = 600
    /// The first pass begins this number of seconds before the newest stored notification, because some earlier
    /// notifications may be missing too.
    static let overlapSeconds = 3_600
    /// Maximum number of pages per request. This maximum ends the loop even if every answer of Apple names a next page.
    static let pagesMax = 100_000

    /// The result of one pass, for the log.
    package enum Report: Sendable, Hashable {
        case filled(stored: Int, known: Int, refused: Int)
        case failed(reason: String)
    }

    private let api: any AppStoreAPI
    private let purchases: any PurchaseService
    private let newest: @Sendable () async throws -> Moment?
    private let sources: [(environment: AppStoreEnvironment, bundleID: String)]
    private let clock: @Sendable () -> Moment
    private let report: @Sendable (Report) -> Void
    private let sleep: @Sendable (Duration) async throws -> Void

    /// - Parameters:
    ///   - newest: returns the time at which the newest stored notification was received.
    ///   - sleep: waits between two passes, and throws when the task is cancelled.
    package init(
        api: any AppStoreAPI, purchases: any PurchaseService, newest: @escaping @Sendable () async throws -> Moment?,
        apps: [AppStoreApp], environments: Set<AppStoreEnvironment>, clock: @escaping @Sendable () -> Moment,
        report: @escaping @Sendable (Report) -> Void,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.sleep = sleep
        self.api = api
        self.purchases = purchases
        self.newest = newest
        sources = [AppStoreEnvironment.production, .sandbox].filter { environments.contains($0) }.flatMap { one in
            apps.map { (one, $0.bundleID) }
        }
        self.clock = clock
        self.report = report
    }

    /// Runs until the task is cancelled.
    package func run() async {
        var from: Moment?
        var isAtStart = true
        while !Task.isCancelled {
            if isAtStart, from == nil { from = await start() }
            let outcome = await fill(from: isAtStart ? from : nil)
            report(outcome)
            var pause = Self.retrySeconds
            if case .filled = outcome { (isAtStart, pause) = (false, Self.intervalSeconds) }
            do { try await sleep(.seconds(pause)) } catch { return }
        }
    }

    private func start() async -> Moment {
        let oldest = clock().advanced(bySeconds: -Self.daysMax * 86_400)
        guard let newest = try? await newest() else { return oldest }
        return max(oldest, newest.advanced(bySeconds: -Self.overlapSeconds))
    }

    /// Makes one pass. If `from` is given, first fetches all notifications since `from`. Then fetches the
    /// notifications of the last `failureDays` days that Apple could not deliver.
    func fill(from: Moment?) async -> Report {
        var counts = (stored: 0, known: 0, refused: 0)
        let now = clock()
        let failures = now.advanced(bySeconds: -Self.failureDays * 86_400)
        do {
            for (environment, bundleID) in sources {
                for (start, onlyFailures) in [(from, false), (failures, true)] {
                    guard let start else { continue }
                    var request = NotificationHistoryRequest(
                        environment: environment, bundleID: bundleID, from: start, to: now, onlyFailures: onlyFailures)
                    for _ in 0..<Self.pagesMax {
                        let page = try await api.notifications(request)
                        for payload in page.signedPayloads { try await take(payload, &counts) }
                        guard let next = page.nextPageToken, next != request.pageToken else { break }
                        request.pageToken = next
                    }
                }
            }
        } catch let failure as AppStoreAPIFailure {
            switch failure {
            case .notFound: return .failed(reason: "not_found")
            case .unavailable(_, let reason): return .failed(reason: reason)
            }
        } catch PurchaseFailure.busy {
            return .failed(reason: "busy")
        } catch {
            return .failed(reason: "store")
        }
        return .filled(stored: counts.stored, known: counts.known, refused: counts.refused)
    }

    private func take(_ payload: String, _ counts: inout (stored: Int, known: Int, refused: Int)) async throws {
        do throws(PurchaseFailure) {
            switch try await purchases.take(signedPayload: payload, at: clock()).outcome {
            case .taken: counts.stored += 1
            case .repeated: counts.known += 1
            }
        } catch {
            guard case .refused = error else { throw error }
            counts.refused += 1
        }
    }
}
