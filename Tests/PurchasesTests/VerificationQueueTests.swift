// Tests of `VerificationQueue`: its thread, the order of its work, and the bound on waiting work.

import Synchronization
import Testing

@testable import Purchases

#if canImport(Glibc)
    import Glibc
#endif

@Suite struct VerificationQueueTests {
    @Test("A verification runs on a thread of lower priority; the caller returns to its own")
    func priority() async throws {
        let queue = VerificationQueue()
        #if os(Linux)
            let inside = try await queue.run { niceness() }
            #expect(inside > niceness())
        #endif
        await #expect(throws: PurchaseFailure.refused(.wrongSignature)) {
            try await queue.run { () async throws(PurchaseRefusal) in throw .wrongSignature }
        }
    }

    @Test("A verification beyond the maximum is rejected at once, and accepted when another one has ended")
    func bound() async throws {
        let queue = VerificationQueue(countMax: 2)
        let (entered, enter) = AsyncStream.makeStream(of: Void.self)
        let gates = (0..<2).map { _ in AsyncStream.makeStream(of: Void.self) }
        let running = gates.enumerated().map { index, gate in
            Task {
                try await queue.run {
                    enter.yield()
                    for await _ in gate.stream {}
                    return index
                }
            }
        }
        var entries = entered.makeAsyncIterator()
        for _ in gates { await entries.next() }
        await #expect(throws: PurchaseFailure.busy) { try await queue.run { 2 } }
        gates[1].continuation.finish()
        #expect(try await running[1].value == 1)
        #expect(try await queue.run { 3 } == 3)
        gates[0].continuation.finish()
        #expect(try await running[0].value == 0)
    }

    @Test("A cancelled caller waits for its verification, which counts until it has ended")
    func cancellation() async throws {
        let queue = VerificationQueue(countMax: 1)
        let (entered, enter) = AsyncStream.makeStream(of: Void.self)
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let caller = Task {
            try await queue.run {
                enter.yield()
                for await _ in gate {}
                return Task.isCancelled
            }
        }
        var entries = entered.makeAsyncIterator()
        await entries.next()
        caller.cancel()
        await #expect(throws: PurchaseFailure.busy) { try await queue.run { true } }
        open.finish()
        #expect(try await !caller.value)
        #expect(try await queue.run { true })
    }

    #if os(Linux)
        /// Returns the nice value of the current thread.
        private func niceness() -> Int32 { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) }
    #endif
}
