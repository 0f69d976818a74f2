// Delivers one-time codes to the webhook, in the background. A failed call is repeated with growing pauses until the
// code expires. Log lines contain no codes and no phone numbers.

package import Engine
package import Identity
package import JourneyModel
package import Logging
import Secrets
import StructuredLogging
import Synchronization

/// The queue of one-time codes. The codes are delivered while `run` runs. Any thread may use the queue.
package final class WebhookCodeDelivery: CodeDelivery {
    /// The maximum number of queued and in-progress codes. It equals the default of OTP_SENDS_TOTAL, the number of
    /// codes that may be sent in an hour. A further code is dropped, and the user has to request another code.
    static let codesMax = 1_000
    /// The pause between two attempts doubles after each failure, up to this maximum.
    static let pauseMillisecondsMax: Int64 = 15_000
    /// A pause is divided into sleeps of this length in milliseconds, because a shutdown waits until the current sleep
    /// ends.
    static let pieceMilliseconds: Int64 = 250
    /// How many seconds a shutdown waits for the codes in progress. If the server's own shutdown limit is shorter, the
    /// wait is shorter too.
    package static let drainSeconds = 3
    /// The minimum time in milliseconds between two log lines about failed calls, for all codes together.
    static let failureLogIntervalMilliseconds: Int64 = 60_000

    private struct State {
        var count = 0
        /// The time of issue of each queued or in-progress code, by job number.
        var issuedAt: [Int: Moment] = [:]
        /// The job number of the last issued code of each phone number. Earlier codes of that number are not sent,
        /// because they are no longer valid and would confuse the user.
        var newest: [String: Int] = [:]
        var lastNumber = 0
        var isDraining = false
        var lastLog: Moment?
    }

    /// The last failed call of the webhook.
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
        // `deliver` accepts at most `codesMax` waiting codes, so the stream's buffer never drops a code.
        (jobs, feed) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.codesMax))
    }

    /// Number of codes in progress or queued.
    package var codesWaiting: Int { state.withLock { $0.count } }

    /// The time at which the oldest queued or in-progress code was issued; nil when there is no such code.
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
        guard let number else {
            return logger.error("one-time code dropped: the delivery queue is full or the server is stopping")
        }
        feed.yield(Job(code: code, number: number))
    }

    /// Delivers codes until the task is cancelled. After the cancellation, makes one more attempt for each remaining
    /// code. All these attempts together take at most `drainSeconds`.
    package func run() async {
        // `work` is not a child task, so that a cancellation of `run` does not cancel the calls in progress.
        let work = Task { await deliverAll() }
        do {
            while true { try await Task.sleep(for: .seconds(3600)) }
        } catch {
            state.withLock { $0.isDraining = true }
            feed.finish()
        }
        let timeout = Task { [drainSeconds] in
            try await Task.sleep(for: .seconds(drainSeconds))
            work.cancel()
        }
        await work.value
        timeout.cancel()
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
            // A code that expires after `latestExpiry` was issued before the clock was set back. Such a code is no
            // longer valid (`CodeRule.judge`).
            guard now < job.code.expiresAt, job.code.expiresAt <= CodeRule.latestExpiry(at: now) else {
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
                recordFailure(reason, at: now)
            }
            if isLast { return }
            await wait(milliseconds: pause)
            pause = min(pause * 2, Self.pauseMillisecondsMax)
        }
    }

    private func recordFailure(_ reason: String, at now: Moment) {
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
