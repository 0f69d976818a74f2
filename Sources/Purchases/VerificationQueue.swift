// Verifies App Store data on a thread of low priority, one verification after the other. Verifying a notification takes
// longer than storing an event. If the event loops verified notifications, events would wait.

import Dispatch
import Synchronization

package final class VerificationQueue: Sendable {
    /// Default for the maximum number of verifications that wait or run. This number of verifications takes about a
    /// third of a second. Each waiting verification holds a text of at most 64 KiB.
    package static let countMax = 1024

    private let countMax: Int
    private let count = Mutex(0)
    private let executor = LowPriorityExecutor()
    /// Resumes the callers. To resume a caller, a thread takes the lock of an event loop's inbox. If the low-priority
    /// thread took this lock and then lost its processor, the event loop would have to wait.
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
    /// With the scheduling policy SCHED_IDLE, the thread would hardly ever run, and would keep its locks meanwhile. In
    /// a measurement, SCHED_IDLE raised the 99th percentile of the response time of events from 11 ms to 30 ms.
    private let queue = DispatchQueue(label: "dwell.verification", qos: .background)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
