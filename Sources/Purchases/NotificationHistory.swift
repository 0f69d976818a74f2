// Asks Apple for notifications that this server missed. It asks when the server starts, and then once a day. One pass
// reads the history of one app in one environment.
//
// A notification from the history is processed like one that Apple sends. If it is already stored, it changes nothing.

package import Identity
package import JourneyModel

/// One of Apple's histories: the notifications about one app in one environment.
package struct NotificationSource: Hashable, Sendable {
    package var environment: AppStoreEnvironment
    package var bundleID: String

    package init(environment: AppStoreEnvironment, bundleID: String) {
        self.environment = environment
        self.bundleID = bundleID
    }
}

/// The port that stores how far the history was read.
package protocol NotificationHistoryProgress: Sendable {
    /// Returns the time up to which the source's history was read; nil if nothing was read yet.
    func historyReadTo(of source: NotificationSource) async throws(AccountFailure) -> Moment?

    func record(historyReadTo time: Moment, of source: NotificationSource) async throws(AccountFailure)
}

package struct NotificationHistory: Sendable {
    /// Each pass requests the notifications that Apple could not deliver. The request begins this number of days before
    /// the end of the previous pass.
    ///
    /// Apple repeats a failed delivery for 157 hours: 1, 12, 24, 48 and 72 hours after the previous attempt. Seven days
    /// cover all these attempts. A notification that this server refused may also be read again.
    static let failureDays = 7
    static let intervalSeconds = 86_400
    static let retrySeconds = 600
    /// The first pass after the server's start reads all notifications, beginning this number of seconds before the end
    /// of the previous pass. The overlap is needed because Apple's clock and this server's clock may differ by that
    /// much.
    static let overlapSeconds = 3_600
    /// The history is read in parts of this length. The end of each part is recorded, so an interrupted pass loses at
    /// most one part.
    static let partSeconds = 86_400
    /// Maximum number of pages per request. It prevents an endless loop if every answer of Apple names a further page.
    static let pagesMax = 100_000

    /// Maximum age of the requested notifications, in days. Apple keeps notifications for 180 days (in the sandbox: 30
    /// days) and refuses requests that begin earlier. One day is subtracted because the clocks may differ.
    static func daysMax(_ environment: AppStoreEnvironment) -> Int { environment == .sandbox ? 29 : 179 }

    /// The result of one pass over the history of one source, for the log.
    package struct Report: Sendable, Hashable {
        package enum Result: Sendable, Hashable {
            case filled(stored: Int, known: Int, refused: Int)
            /// Apple has no history of the app yet.
            case notAvailable
            case failed(reason: String)
        }

        package var source: NotificationSource
        package var result: Result
    }

    private let api: any AppStoreAPI
    private let purchases: any PurchaseService
    private let progress: any NotificationHistoryProgress
    private let sources: [NotificationSource]
    private let clock: @Sendable () -> Moment
    private let report: @Sendable (Report) -> Void
    private let sleep: @Sendable (Duration) async throws -> Void

    /// - Parameter sleep: waits between two passes, and throws when the task is cancelled.
    package init(
        api: any AppStoreAPI, purchases: any PurchaseService, progress: any NotificationHistoryProgress,
        apps: [AppStoreApp], environments: Set<AppStoreEnvironment>, clock: @escaping @Sendable () -> Moment,
        report: @escaping @Sendable (Report) -> Void,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.sleep = sleep
        self.api = api
        self.purchases = purchases
        self.progress = progress
        sources = [AppStoreEnvironment.production, .sandbox].filter(environments.contains).flatMap { environment in
            apps.map { NotificationSource(environment: environment, bundleID: $0.bundleID) }
        }
        self.clock = clock
        self.report = report
    }

    /// Runs until the task is cancelled. A source that fails is read again after ten minutes. The other sources keep
    /// their own schedule.
    package func run() async {
        /// For each source: the seconds until its next pass, and whether no pass has succeeded since the start.
        var states = sources.map { _ in (seconds: 0, isAtStart: true) }
        while !Task.isCancelled {
            for (index, source) in sources.enumerated() where states[index].seconds == 0 {
                let result = await fill(source, isAtStart: states[index].isAtStart)
                if Task.isCancelled { return }
                report(Report(source: source, result: result))
                switch result {
                case .filled: states[index] = (Self.intervalSeconds, false)
                case .notAvailable: states[index].seconds = Self.intervalSeconds
                case .failed: states[index].seconds = Self.retrySeconds
                }
            }
            let pause = states.map(\.seconds).min() ?? Self.intervalSeconds
            do { try await sleep(.seconds(pause)) } catch { return }
            for index in states.indices { states[index].seconds -= pause }
        }
    }

    private struct Counts {
        var stored = 0
        var known = 0
        var refused = 0
    }

    /// Why a pass ended before the end of the history.
    private enum Interruption: Error {
        case notAvailable
        case endless
    }

    private struct Part {
        var from: Moment
        var to: Moment
        var onlyFailures: Bool
    }

    /// Makes one pass over the history of a source. Each time a part has been read, the end of this part is recorded.
    ///
    /// If `isAtStart` is true, also fetches the notifications that Apple has delivered, because a database that was
    /// restored from a backup may lack some of them.
    private func fill(_ source: NotificationSource, isAtStart: Bool) async -> Report.Result {
        let now = clock()
        var counts = Counts()
        do {
            for part in try await parts(of: source, isAtStart: isAtStart, now: now) {
                let request = NotificationHistoryRequest(
                    environment: source.environment, bundleID: source.bundleID, from: part.from, to: part.to,
                    onlyFailures: part.onlyFailures)
                try await read(request, &counts)
                try await progress.record(historyReadTo: part.to, of: source)
            }
        } catch let failure as AppStoreAPIFailure {
            switch failure {
            case .notFound: return .failed(reason: "not_found")
            case .unavailable(_, let reason): return .failed(reason: reason)
            }
        } catch PurchaseFailure.busy {
            return .failed(reason: "busy")
        } catch Interruption.notAvailable {
            return .notAvailable
        } catch Interruption.endless {
            return .failed(reason: "endless")
        } catch {
            return .failed(reason: "store")
        }
        return .filled(stored: counts.stored, known: counts.known, refused: counts.refused)
    }

    /// Returns the parts of one pass, in the order in which they are read:
    ///
    /// - If the history was never read: all notifications of the last `daysMax` days.
    /// - If `isAtStart` is false: one part with the undelivered notifications (`onlyFailures`) up to `now`.
    /// - If `isAtStart` is true: first a part with the undelivered notifications up to the end of the previous pass,
    ///   then all notifications up to `now`, delivered or not.
    ///
    /// After each part, the end of the part is recorded. No part ends before the time recorded last, and the last part
    /// ends at `now`. The recorded time therefore goes back in only one case: a wrong clock has recorded a time in the
    /// future.
    ///
    /// The part with `onlyFailures` is read first, because every other part moves the recorded time forward. If the
    /// pass were interrupted after another part, the next pass would skip the oldest undelivered notifications.
    private func parts(of source: NotificationSource, isAtStart: Bool, now: Moment) async throws -> [Part] {
        let oldest = now.advanced(bySeconds: -Self.daysMax(source.environment) * 86_400)
        // A recorded time in the future comes from a wrong clock. It counts as `now`.
        guard let readTo = try await progress.historyReadTo(of: source).map({ min($0, now) }) else {
            return Self.parts(from: oldest, to: now)
        }
        let failures = max(oldest, readTo.advanced(bySeconds: -Self.failureDays * 86_400))
        guard isAtStart else { return [Part(from: failures, to: now, onlyFailures: true)] }
        let all = max(oldest, readTo.advanced(bySeconds: -Self.overlapSeconds))
        let parts = Self.parts(from: all, to: now)
        return failures < all ? [Part(from: failures, to: readTo, onlyFailures: true)] + parts : parts
    }

    private static func parts(from begin: Moment, to end: Moment) -> [Part] {
        var parts: [Part] = []
        var from = begin
        while from < end {
            let to = min(from.advanced(bySeconds: partSeconds), end)
            parts.append(Part(from: from, to: to, onlyFailures: false))
            from = to
        }
        return parts
    }

    /// Reads all pages of a request.
    private func read(_ request: NotificationHistoryRequest, _ counts: inout Counts) async throws {
        var request = request
        for _ in 0..<Self.pagesMax {
            let page = try await api.notifications(request)
            guard page.isAvailable else { throw Interruption.notAvailable }
            for payload in page.signedPayloads { try await take(payload, &counts) }
            guard let next = page.nextPageToken else { return }
            guard next != request.pageToken else { break }
            request.pageToken = next
        }
        throw Interruption.endless
    }

    private func take(_ payload: String, _ counts: inout Counts) async throws {
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
