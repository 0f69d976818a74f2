// Tests the watch for descriptors of C libraries on one end of a socket pair.

import Synchronization
import Testing

@testable import Sockets

#if canImport(Glibc)
    import Glibc
#endif

extension SocketsSuite {
    @Suite struct DescriptorWatchTests {
        /// The events of a watch, as text.
        private final class Log: Sendable {
            private let lines = Mutex<[String]>([])
            func add(_ event: DescriptorWatch.Event) { lines.withLock { $0.append("\(event)") } }
            func clear() { lines.withLock { $0 = [] } }
            var all: [String] { lines.withLock { $0 } }

            func contains(_ line: String) async -> Bool {
                let deadline = Deadline.inSeconds(10)
                while !deadline.hasPassed {
                    if all.contains(line) { return true }
                    try? await Task.sleep(for: .milliseconds(1))
                }
                return false
            }
        }

        private func withPair(
            _ body: (EventLoop, _ near: Int32, _ far: Int32, Log) async throws -> Void
        ) async throws {
            let group = try EventLoopGroup(count: 1)
            var ends: [Int32] = [-1, -1]
            #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
            try await body(group.next(), ends[0], ends[1], Log())
            await group.shutdown()
            for end in ends { close(end) }
        }

        @Test func `bytes and the peer's end are reported`() async throws {
            try await withPair { (loop, near, far, log) async throws in
                let watch = try await loop.run { () throws(TransportError) in
                    try DescriptorWatch(near, on: loop) { log.add($0) }
                }
                // A new socket is writable.
                #expect(await log.contains("ready"))
                log.clear()
                #expect(write(far, "x", 1) == 1)
                #expect(await log.contains("ready"))
                log.clear()
                await loop.run { watch.continueInNextRound() }
                #expect(await log.contains("ready"))
                log.clear()
                shutdown(far, Int32(SHUT_RDWR))
                #expect(await log.contains("ready"))
            }
        }

        @Test func `a deadline is reported, unless it is replaced`() async throws {
            try await withPair { (loop, near, far, log) async throws in
                let watch = try await loop.run { () throws(TransportError) in
                    try DescriptorWatch(near, on: loop) { log.add($0) }
                }
                await loop.run { watch.setDeadline(.inMilliseconds(20)) }
                #expect(await log.contains("timedOut"))
                log.clear()
                await loop.run {
                    watch.setDeadline(.inMilliseconds(20))
                    watch.setDeadline(.never)
                }
                try await loop.sleep(until: .inMilliseconds(60))
                #expect(!log.all.contains("timedOut"))
            }
        }

        @Test func `after its end a watch reports nothing, and before it the end of the loop`() async throws {
            for isEnded in [true, false] {
                try await withPair { (loop, near, far, log) async throws in
                    let watch = try await loop.run { () throws(TransportError) in
                        try DescriptorWatch(near, on: loop) { log.add($0) }
                    }
                    #expect(await log.contains("ready"))
                    log.clear()
                    if isEnded {
                        await loop.run {
                            watch.setDeadline(.inMilliseconds(10))
                            watch.end()
                            watch.continueInNextRound()
                            watch.setDeadline(.inMilliseconds(10))
                        }
                        #expect(write(far, "x", 1) == 1)
                        try await loop.sleep(until: .inMilliseconds(40))
                    }
                    await loop.shutdown()
                    #expect(log.all == (isEnded ? [] : ["loopShutsDown"]))
                }
            }
        }
    }
}
