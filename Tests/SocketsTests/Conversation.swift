// Two handlers for the tests of this directory, and a function that reads an exact number of bytes.

import TestSupport

@testable import Sockets

#if canImport(Glibc)
    import Glibc
#endif

struct Echo: ConnectionHandler {
    func serve(_ connection: Connection) async {
        do {
            while true {
                let bytes = try await connection.read(until: .inSeconds(10), endsOnDrain: true)
                if bytes.isEmpty { break }
                try await connection.write(bytes, until: .inSeconds(10))
            }
        } catch {}
    }
}

extension Connection {
    /// Reads exactly `count` bytes, or fewer if the stream ends earlier.
    func read(count: Int, until deadline: Deadline) async throws(TransportError) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let more = try await read(until: deadline)
            if more.isEmpty { break }
            bytes += more
        }
        return bytes
    }
}

/// Gives its connections to the test, and keeps them open until `letGo()` is called.
final class Keeper: ConnectionHandler {
    private let (connections, arrivals) = AsyncStream<Connection>.makeStream()
    private let done = Latch()

    func serve(_ connection: Connection) async {
        arrivals.yield(connection)
        await done.wait()
    }

    func next() async -> Connection {
        var iterator = connections.makeAsyncIterator()
        while true {
            if let connection = await iterator.next() { return connection }
        }
    }

    func letGo() {
        done.reach()
    }
}
