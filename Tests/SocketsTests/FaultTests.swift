// Repeats a conversation with a fault at the 1st call of a kind, then at the 2nd, and so on. Each conversation must
// complete or fail within seconds, and close every descriptor exactly once.

import TestSupport
import Testing

@testable import Sockets

#if canImport(Glibc)
    import Glibc
#endif

extension SocketsSuite {
    @Suite struct FaultTests {
        /// Faults of normal operation, after which the conversation must complete.
        static let harmless: [Fault] = [
            Fault(.receive, EINTR), Fault(.receive, EAGAIN), Fault(short: .receive),
            Fault(.send, EINTR), Fault(.send, EAGAIN), Fault(short: .send),
            Fault(.accept, EINTR), Fault(.accept, EAGAIN), Fault(.accept, ECONNABORTED), Fault(.accept, ENOBUFS),
            Fault(.socket, EINTR), Fault(.bind, EINTR), Fault(.listen, EINTR), Fault(.pollerAdd, EINTR),
            Fault(.openSpare, EMFILE),
        ]
        /// Faults that may end a conversation or prevent it from starting.
        static let harmful: [Fault] = [
            Fault(.receive, ECONNRESET), Fault(.receive, ENOMEM), Fault(.send, EPIPE), Fault(.send, ECONNRESET),
            Fault(.send, ENOBUFS), Fault(.accept, EMFILE), Fault(.accept, ENFILE), Fault(.socket, EMFILE),
            Fault(.socket, ENFILE), Fault(.socket, ENOBUFS), Fault(.bind, EADDRINUSE), Fault(.listen, EADDRINUSE),
            Fault(.connect, ECONNREFUSED), Fault(.connect, ENETUNREACH), Fault(.setOption, ENOPROTOOPT),
            Fault(.localName, ENOBUFS), Fault(.pollerCreate, EMFILE), Fault(.pollerAdd, ENOSPC),
            Fault(.pollerAdd, ENOMEM), Fault(.shutdownWrite, ENOTCONN),
        ]

        @Test(arguments: harmless) func `the conversation does not notice`(fault: Fault) async throws {
            try await everyPoint(of: fault) { script, n in
                try await converse(script, "\(fault) at call \(n)")
            }
        }

        @Test(arguments: harmful) func `the conversation completes or fails cleanly`(fault: Fault) async throws {
            try await everyPoint(of: fault) { script, n in
                do throws(TransportError) {
                    try await converse(script, "\(fault) at call \(n)")
                } catch {
                    #expect(error != .timedOut, "\(fault) at call \(n) went unnoticed")
                }
            }
        }

        private func everyPoint(of fault: Fault, _ conversation: (FaultScript, Int) async throws -> Void) async throws {
            var n = 1
            while true {
                let script = FaultScript(fault, at: n)
                try await conversation(script, n)
                #expect(script.openDescriptors.isEmpty, "\(fault) at call \(n)")
                #expect(script.closedTwice.isEmpty, "\(fault) at call \(n)")
                if !script.wasReached { break }
                n += 1
            }
            #expect(n > 1, "\(fault) was never reached")
        }

        /// The script sees only calls through `Syscalls`, so this test counts the descriptors in /proc. It has its own
        /// process, because other tests open descriptors at the same time.
        @Test func `the process has as many descriptors after as before`() async {
            await #expect(processExitsWith: .success) {
                let tests = FaultTests()
                // The first conversation makes Dispatch and the runtime open descriptors, which stay open. The count
                // therefore begins after it.
                do throws(TransportError) {
                    try await tests.converse(FaultScript(Fault(.send, EPIPE), at: .max - 1), "without fault")
                } catch { exit(EXIT_FAILURE) }
                let before = openDescriptorCount()
                guard before > 0 else { exit(EXIT_FAILURE) }
                for fault in FaultTests.harmless + FaultTests.harmful {
                    for n in 1...3 { try? await tests.converse(FaultScript(fault, at: n), "\(fault) at call \(n)") }
                }
                exit(openDescriptorCount() == before ? EXIT_SUCCESS : EXIT_FAILURE)
            }
        }

        /// The server and the client use the script's system calls. The client sends three messages, closes its sending
        /// side, and reads to the end of the stream.
        func converse(_ script: FaultScript, _ what: String) async throws(TransportError) {
            let loops = try makeLoops(script)
            var failure: TransportError?
            do throws(TransportError) {
                let address = SocketAddress.ip(host: "127.0.0.1", port: 0)
                let listening = try await ListenerGroup.listen(on: address, loops: loops, handler: Echo())
                do throws(TransportError) {
                    try await talk(to: listening.address, loops.next())
                } catch {
                    failure = error
                }
                #expect(await listening.drain(until: .inSeconds(5)) == 0, "a connection was left: \(what)")
            } catch {
                failure = error
            }
            await loops.shutdown()
            if let failure { throw failure }
        }

        private func makeLoops(_ script: FaultScript) throws(TransportError) -> EventLoopGroup {
            try EventLoopGroup(count: 2, syscalls: script.syscalls)
        }

        private func talk(to address: SocketAddress, _ loop: EventLoop) async throws(TransportError) {
            let deadline = Deadline.inSeconds(5)
            let client = try await Connection.connect(to: address, on: loop, until: deadline)
            defer { client.close() }
            for text in ["one", "two", "three"] {
                try await client.write(Array(text.utf8), until: deadline)
                let answer = try await client.read(count: text.utf8.count, until: deadline)
                if answer.count < text.utf8.count { throw .reset }
                #expect(answer == Array(text.utf8))
            }
            client.shutdownWrite()
            _ = try await client.read(count: 1, until: deadline)
        }
    }
}
