// Tests of an event loop's tasks. Work runs on the loop, later work reuses idle tasks, and the end of the loop ends all
// tasks.

import Synchronization
import Testing

@testable import Sockets

extension SocketsSuite {
    @Suite struct LoopTaskTests {
        private func withLoop(_ body: (EventLoop) async throws -> Void) async throws {
            let loops = try EventLoopGroup(count: 1)
            try await body(loops.loops[0])
            await loops.shutdown()
        }

        /// Runs `count` pieces of work at the same time, waits for all of them, and returns their tasks.
        private func runTogether(_ count: Int, on loop: EventLoop) async -> [LoopTask] {
            let started = AsyncStream.makeStream(of: Void.self)
            let go = Latch()
            let ended = AsyncStream.makeStream(of: Void.self)
            let tasks = await loop.run {
                (0..<count).map { _ in
                    loop.start {
                        started.continuation.yield()
                        await go.wait()
                        ended.continuation.yield()
                    }
                }
            }
            var starts = started.stream.makeAsyncIterator()
            for _ in 0..<count { await starts.next() }
            go.reach()
            var ends = ended.stream.makeAsyncIterator()
            for _ in 0..<count { await ends.next() }
            // A task may become idle only one round of the loop after its work has ended.
            await loop.run {}
            return tasks
        }

        @Test func `work runs on the loop`() async throws {
            try await withLoop { loop in
                let isCurrent = await withCheckedContinuation { continuation in
                    loop.execute { _ = loop.start { continuation.resume(returning: loop.isCurrent) } }
                }
                #expect(isCurrent)
            }
        }

        @Test func `a task that has done its work is given the next`() async throws {
            try await withLoop { loop in
                let first = await runTogether(3, on: loop)
                let second = await runTogether(3, on: loop)
                #expect(Set(first.map(ObjectIdentifier.init)) == Set(second.map(ObjectIdentifier.init)))
                #expect(Set(first.map(ObjectIdentifier.init)).count == 3)
            }
        }

        @Test func `a waiting task keeps nothing of its last work alive`() async throws {
            try await withLoop { loop in
                weak var content: Latch?
                do {
                    let latch = Latch()
                    content = latch
                    await loop.run { _ = loop.start { [latch] in latch.reach() } }
                    await latch.wait()
                }
                // A task may become idle only one round of the loop after its work has ended.
                await loop.run {}
                #expect(content == nil)
            }
        }

        @Test func `at most so many wait`() async throws {
            try await withLoop { loop in
                let first = await runTogether(IdleTasks.countMax + 50, on: loop)
                let second = await runTogether(IdleTasks.countMax + 50, on: loop)
                let both = Set(first.map(ObjectIdentifier.init)).intersection(second.map(ObjectIdentifier.init))
                #expect(both.count == IdleTasks.countMax)
            }
        }

        @Test func `work after cancelled work is not cancelled`() async throws {
            try await withLoop { loop in
                let wasCancelled = await withCheckedContinuation { continuation in
                    loop.execute {
                        let task = loop.start {
                            while !Task.isCancelled { await Task.yield() }
                            continuation.resume(returning: Task.isCancelled)
                        }
                        task.cancel()
                    }
                }
                #expect(wasCancelled)
                await loop.run {}
                for _ in 0..<3 {
                    let isCancelled = await withCheckedContinuation { continuation in
                        loop.execute { _ = loop.start { continuation.resume(returning: Task.isCancelled) } }
                    }
                    #expect(!isCancelled)
                }
            }
        }

        @Test func `the end of the loop ends the waiting tasks, and those that work when they are done`() async throws {
            let loops = try EventLoopGroup(count: 1)
            let loop = loops.loops[0]
            let go = Latch()
            weak var waiting: LoopTask?
            weak var working: LoopTask?
            do {
                let tasks = await runTogether(2, on: loop)
                waiting = tasks.first
                working = await loop.run { loop.start { await go.wait() } }
            }
            #expect(waiting != nil && working != nil)
            await loops.shutdown()
            go.reach()
            // Both tasks end on the loop's queue, after the jobs in that queue. The test must therefore wait.
            for _ in 0..<1000 where waiting != nil || working != nil { try await Task.sleep(for: .milliseconds(5)) }
            #expect(waiting == nil && working == nil)
        }
    }
}
