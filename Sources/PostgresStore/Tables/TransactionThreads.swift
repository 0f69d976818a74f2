// The threads on which the closures of transactions run. A closure blocks its thread while it waits for PostgreSQL, so
// it must not run on a thread of Swift concurrency.

import Dispatch
import Synchronization

final class TransactionThreads: Sendable {
    /// Each queue has a thread while it runs a closure (body).
    private let queues: [DispatchQueue]
    /// The number of unfinished bodies on each queue.
    private let loads: Mutex<[Int]>

    init(count: Int) {
        queues = (0..<count).map { DispatchQueue(label: "dwell.postgres.transactions.\($0)") }
        loads = Mutex([Int](repeating: 0, count: count))
    }

    func run<Answer: Sendable>(_ body: @escaping @Sendable () -> Answer) async -> Answer {
        let index = loads.withLock { loads in
            let index = loads.indices.min { loads[$0] < loads[$1] } ?? 0
            loads[index] += 1
            return index
        }
        return await withCheckedContinuation { continuation in
            queues[index].async {
                let answer = body()
                self.loads.withLock { $0[index] -= 1 }
                continuation.resume(returning: answer)
            }
        }
    }
}
