// Verifies App Store data on one thread of low priority. A verification takes longer than storing an event. On an event
// loop, it would make events wait.

import Dispatch
import Synchronization

package final class VerificationQueue: Sendable {
    /// The default limit for waiting and running verifications together. So many verifications take about a third of a
    /// second. Each of them holds a text of at most 64 KiB.
    package static let countMax = 1024

    private let countMax: Int
    private let count = Mutex(0)
    private let executor = LowPriorityExecutor()
    /// Resumes the callers at a higher priority, because resuming takes the lock of an event loop's inbox. If the
    /// low-priority thread lost its processor while it held this lock, the event loop would wait.
    private let completions = DispatchQueue(label: "dwell.verification.completions", qos: .userInitiated)

    package init(countMax: Int = VerificationQueue.countMax) {
        self.countMax = countMax
    }

    /// Runs `verify` on the low-priority thread. Throws `.busy` at once if the queue is full, and `.refused` if
    /// `verify` throws.
    func run<Value: Sendable>(
        _ verify: @escaping @Sendable () async throws(PurchaseRefusal) -> Value
    ) async throws(PurchaseFailure) -> Value {
        let isAdmitted = count.withLock { count in
            guard count < countMax else { return false }
            count += 1
            return true
        }
        guard isAdmitted else { throw .busy }
        defer { count.withLock { $0 -= 1 } }
        let result: Result<Value, PurchaseRefusal> = await withCheckedContinuation { waiting in
            Task(executorPreference: executor) { [completions] in
                let result: Result<Value, PurchaseRefusal>
                do throws(PurchaseRefusal) { result = .success(try await verify()) } catch { result = .failure(error) }
                completions.async { waiting.resume(returning: result) }
            }
        }
        do throws(PurchaseRefusal) { return try result.get() } catch { throw .refused(error) }
    }
}

private final class LowPriorityExecutor: TaskExecutor {
    /// On Linux, Dispatch gives the thread of a background queue the nice value 10. The event loops and the database
    /// writer therefore get more processor time.
    ///
    /// The scheduling policy SCHED_IDLE would be wrong: the thread would hardly run, but would keep its locks. In a
    /// measurement, it raised the 99th percentile of events' response times from 11 ms to 30 ms.
    private let queue = DispatchQueue(label: "dwell.verification", qos: .background)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
