// A proxy between the code under test and a real Redis. It can stall, truncate, replace or delay replies. Commands
// always reach Redis; only the replies to the client are changed.

import Sockets
import Synchronization
import TestSupport

@testable import RateLimiting

final class FaultyProxy: ConnectionHandler, Sendable {
    enum Fault: Hashable, Sendable {
        case none
        /// Discards replies and keeps the connection open.
        case stall
        /// Forwards this many bytes of the next reply, then closes the connection.
        case cut(afterBytes: Int)
        /// Sends these bytes instead of the next reply.
        case answer(String)
        case delay(milliseconds: Int)
    }

    private let server: RedisServer
    private let current = Mutex(Fault.none)

    private init(_ server: RedisServer) {
        self.server = server
    }

    /// Runs the body while the proxy listens.
    static func with(_ server: RedisServer, _ body: (FaultyProxy) async throws -> Void) async throws {
        let proxy = FaultyProxy(server)
        let group = try await ListenerGroup.listen(on: .unix(path: proxy.path), loops: server.loops, handler: proxy)
        do {
            try await body(proxy)
        } catch {
            await group.drain(until: .now)
            throw error
        }
        await group.drain(until: .now)
    }

    private var path: String { server.directory + "/proxy.sock" }

    var endpoint: RedisEndpoint {
        get throws { try RedisEndpoint(parsing: "unix://\(path)") }
    }

    /// The fault that applies to all later replies of every connection.
    var fault: Fault {
        get { current.withLock { $0 } }
        set { current.withLock { $0 = newValue } }
    }

    func serve(_ client: Connection) async {
        let address = SocketAddress.unix(path: server.socketPath)
        guard let upstream = try? await Connection.connect(to: address, on: client.loop, until: .inSeconds(5)) else {
            return
        }
        await withTaskGroup { group in
            group.addTask { await Self.copyCommands(from: client, to: upstream) }
            group.addTask { await self.copyReplies(from: upstream, to: client) }
            await group.next()
            client.close()
            upstream.close()
            group.cancelAll()
        }
    }

    private static func copyCommands(from client: Connection, to upstream: Connection) async {
        while let bytes = try? await client.read(), !bytes.isEmpty {
            guard (try? await upstream.write(bytes)) != nil else { return }
        }
    }

    private func copyReplies(from upstream: Connection, to client: Connection) async {
        while let bytes = try? await upstream.read(), !bytes.isEmpty {
            do {
                switch fault {
                case .none: try await client.write(bytes)
                case .stall: break
                case .cut(let count): return try await client.write(Array(bytes.prefix(count)))
                case .answer(let text): try await client.write(Array(text.utf8))
                case .delay(let milliseconds):
                    try await Task.sleep(for: .milliseconds(milliseconds))
                    try await client.write(bytes)
                }
            } catch {
                return
            }
        }
    }
}
