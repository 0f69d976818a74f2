// A thread that waits for the outcome of a call.

internal import Dispatch
internal import Sockets
internal import Synchronization

final class BlockedThread: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    private let settled = Mutex<PostgresCall.Outcome?>(nil)

    /// How long the thread waits after a call's deadline. The event loop normally ends the call at the deadline, but
    /// may be late.
    private static let lateMilliseconds = 5_000

    func resume(returning outcome: PostgresCall.Outcome) {
        settled.withLock { $0 = outcome }
        semaphore.signal()
    }

    /// Blocks the calling thread until the call has ended. Returns the failure `.timedOut` if the call has not ended
    /// `lateMilliseconds` after the deadline. The call's transaction may have been committed all the same.
    func outcome(until deadline: Deadline) -> PostgresCall.Outcome {
        if deadline == .never {
            semaphore.wait()
        } else {
            let milliseconds = deadline.remainingMilliseconds + Self.lateMilliseconds
            _ = semaphore.wait(timeout: .now() + .milliseconds(milliseconds))
        }
        return settled.withLock { $0 }
            ?? .failure(
                PostgresError(.timedOut, "The event loop did not end the call in time.", leavesCommitInDoubt: true))
    }
}
