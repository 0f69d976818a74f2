// A writer that is busy until the test releases it. Until then, requests wait in its queue.

import Dispatch
import GRDB

@testable import SQLiteStore

struct HeldWriter {
    private let gate: DispatchSemaphore
    private let held: Task<Void, any Error>

    /// Returns when the writer is busy.
    init(of store: SQLiteEventStore) async {
        let (hasBegun, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        self.gate = gate
        held = Task {
            try await store.change { (_: Database) -> Void in
                hasBegun.signal()
                gate.wait()
            }
        }
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                hasBegun.wait()
                continuation.resume()
            }
        }
    }

    func release() async throws {
        gate.signal()
        try await held.value
    }
}
