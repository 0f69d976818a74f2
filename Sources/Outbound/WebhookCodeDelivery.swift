// Delivery of one-time codes to the webhook: outside the request, each retried with growing pauses until it
// expires. Knows neither HTTP nor signatures. Its log lines contain neither codes nor numbers.

package import Engine
package import Identity
package import JourneyModel
package import Logging
import Secrets
import StructuredLogging
import Synchronization

/// Safe to use from every thread. Delivers while `run` runs.
package final class WebhookCodeDelivery: CodeDelivery {
    /// Codes in progress or queued: as many as OTP_SENDS_TOTAL admits in an hour, unless that was raised. Further
    /// ones are dropped, and the phone requests another.
    static let codesMax = 1_000
    /// The pause doubles after each failure, up to this.
    static let pauseMillisecondsMax: Int64 = 15_000
    /// A pause is slept in pieces of this length, so that a shutdown does not wait long.
    static let pieceMilliseconds: Int64 = 250
    /// At shutdown the server waits this long for codes in progress, unless it has less time.
    package static let drainSeconds = 3
    /// A persistent failure is logged once per interval, however many codes wait.
    static let failureLogIntervalMilliseconds: Int64 = 60_000

    private struct State {
        var count = 0
        /// When each code in progress was issued, by its number.
        var issuedAt: [Int: Moment] = [:]
        /// The newest code in progress for each phone number: an older one is worthless, and would confuse.
        var newest: [String: Int] = [:]
        var lastNumber = 0
        var isDraining = false
        var lastLog: Moment?
    }

    /// Failures of calls to the webhook.
    package let failure = DeliveryFailure()

    private struct Job: Sendable {
        var code: OutgoingCode
        var number: Int
    }

    private let webhook: CodeWebhook
    private let clock: @Sendable () -> Moment
    private let logger: Logger
    private let drainSeconds: Int
    private let firstPauseMilliseconds: Int64
    private let state = Mutex(State())
    private let jobs: AsyncStream<Job>
    private let feed: AsyncStream<Job>.Continuation

    package init(
        webhook: CodeWebhook, clock: @escaping @Sendable () -> Moment, logger: Logger,
        drainSeconds: Int = drainSeconds, firstPauseMilliseconds: Int64 = 1_000
    ) {
        self.firstPauseMilliseconds = firstPauseMilliseconds
        self.webhook = webhook
        self.clock = clock
        self.logger = logger
        self.drainSeconds = drainSeconds
        // Bounded by `codesMax` below.
        (jobs, feed) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.codesMax))
    }

    /// Codes in progress or queued.
    package var codesWaiting: Int { state.withLock { $0.count } }

    /// When the oldest of them was issued; nil: there is none.
    package var oldestWaitingSince: Moment? { state.withLock { $0.issuedAt.values.min() } }

    package func deliver(_ code: OutgoingCode) {
        let number: Int? = state.withLock { state in
            guard state.count < Self.codesMax, !state.isDraining else { return nil }
            state.count += 1
            state.lastNumber += 1
            state.newest[code.phone.reveal()] = state.lastNumber
            state.issuedAt[state.lastNumber] = code.issuedAt
            return state.lastNumber
        }
        guard let number else { return logger.error("one-time code dropped: delivery queue full") }
        feed.yield(Job(code: code, number: number))
    }

    /// Runs until the task is cancelled; then for `drainSeconds` at most, in which each remaining code is tried
    /// once more.
    package func run() async {
        // Not a child task: cancelling this task must not abort calls.
        let work = Task { await deliverAll() }
        do {
            while true { try await Task.sleep(for: .seconds(3600)) }
        } catch {
            state.withLock { $0.isDraining = true }
            feed.finish()
        }
        let patience = Task { [drainSeconds] in
            try await Task.sleep(for: .seconds(drainSeconds))
            work.cancel()
        }
        await work.value
        patience.cancel()
        let left = state.withLock { $0.count }
        if left > 0 { logger.error("one-time codes left undelivered at shutdown", metadata: ["codes": .number(left)]) }
    }

    private func deliverAll() async {
        await withDiscardingTaskGroup { group in
            for await job in jobs { group.addTask { await self.deliver(job) } }
        }
    }

    // MARK: One code

    private func deliver(_ job: Job) async {
        var pause = firstPauseMilliseconds
        while !Task.isCancelled {
            let now = clock()
            guard isNewest(job) else { return end(job) }
            guard now < job.code.expiresAt else {
                end(job)
                return logger.error("one-time code expired before delivery")
            }
            let isLast = state.withLock { $0.isDraining }
            switch await webhook.post(job.code, at: now) {
            case .delivered: return end(job)
            case .refused(let status):
                end(job)
                failure.record("refused: \(status)", at: now)
                return logger.error("one-time code webhook rejected a request", metadata: ["status": .number(status)])
            case .tryAgain(let reason):
                tell(reason, at: now)
            }
            if isLast { return }
            await wait(milliseconds: pause)
            pause = min(pause * 2, Self.pauseMillisecondsMax)
        }
    }

    private func tell(_ reason: String, at now: Moment) {
        failure.record(reason, at: now)
        let isDue = state.withLock { state in
            if let last = state.lastLog, last <= now,
                now.milliseconds(since: last) < Self.failureLogIntervalMilliseconds
            {
                return false
            }
            state.lastLog = now
            return true
        }
        if isDue { logger.warning("delivering one-time codes failed; retrying", metadata: ["failure": "\(reason)"]) }
    }

    private func isNewest(_ job: Job) -> Bool {
        state.withLock { $0.newest[job.code.phone.reveal()] == job.number }
    }

    private func end(_ job: Job) {
        state.withLock { state in
            state.count -= 1
            state.issuedAt[job.number] = nil
            let phone = job.code.phone.reveal()
            if state.newest[phone] == job.number { state.newest[phone] = nil }
        }
    }

    private func wait(milliseconds: Int64) async {
        var left = milliseconds
        while left > 0, !state.withLock({ $0.isDraining }) {
            do { try await Task.sleep(for: .milliseconds(min(left, Self.pieceMilliseconds))) } catch { return }
            left -= Self.pieceMilliseconds
        }
    }
}
