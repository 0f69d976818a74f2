// Sends bytes over real sockets and reads them back: IPv4, IPv6, host names, Unix sockets, half-closed connections.

import TestSupport
import Testing

@testable import Sockets

#if canImport(Glibc)
    import Glibc
#endif

extension SocketsSuite {
    @Suite struct EchoTests {
        static let addresses: [SocketAddress] = [
            .ip(host: "127.0.0.1", port: 0),
            .ip(host: "::1", port: 0),
            .ip(host: "localhost", port: 0),
            .unix(path: "/tmp/dwell-echo-\(getpid()).sock"),
        ]

        @Test(arguments: addresses) func `what is sent comes back`(address: SocketAddress) async throws {
            let loops = try EventLoopGroup(count: 2)
            let listening = try await ListenerGroup.listen(on: address, loops: loops, handler: Echo())
            let client = try await Connection.connect(to: listening.address, on: loops.next(), until: .inSeconds(5))
            for text in ["one", "two", "three"] {
                try await client.write(Array(text.utf8))
                let answer = try await client.read(count: text.utf8.count, until: .inSeconds(5))
                #expect(String(decoding: answer, as: UTF8.self) == text)
            }
            client.close()
            #expect(await listening.drain(until: .inSeconds(5)) == 0)
            await loops.shutdown()
        }

        @Test func `many lookups of a name at the same moment succeed`() async throws {
            let address = SocketAddress.ip(host: "localhost", port: 1)
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<64 {
                    group.addTask { try await Resolver.resolve(address, until: .inSeconds(10)).count }
                }
                for try await count in group { #expect(count > 0) }
            }
        }
    }
}
