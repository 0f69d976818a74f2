// A proxy between the client and a real PostgreSQL. It can cut connections at chosen bytes, stay silent, or send bytes
// of its own.

import Foundation
import Sockets
import Synchronization
import TestSupport

final class CuttingProxy: ConnectionHandler, Sendable {
    enum Fault: Hashable, Sendable {
        case none
        /// Forwards this many further bytes to the server. Closes both connections when another byte arrives.
        case cutRequests(afterBytes: Int)
        /// Forwards this many further bytes to the client. Closes both connections when another byte arrives.
        case cutReplies(afterBytes: Int)
        /// Forwards nothing more, in either direction.
        case silence
        /// Sends these bytes to the client in place of whatever the server sends.
        case reply([UInt8])
    }

    private let server: PostgresServer
    private let current = Mutex(Fault.none)
    private let replyCount = Mutex(0)
    private let requestCount = Mutex(0)
    private let folder = NSTemporaryDirectory() + "dwell-proxy-\(UInt32.random(in: .min ... .max))"

    private init(_ server: PostgresServer) {
        self.server = server
    }

    /// Runs the body while the proxy listens.
    static func with(_ server: PostgresServer, _ body: (CuttingProxy) async throws -> Void) async throws {
        let proxy = CuttingProxy(server)
        try FileManager.default.createDirectory(atPath: proxy.folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: proxy.folder) }
        let address = SocketAddress.unix(path: proxy.folder + "/.s.PGSQL.5432")
        let group = try await ListenerGroup.listen(on: address, loops: Loops.group, handler: proxy)
        do {
            try await body(proxy)
        } catch {
            await group.drain(until: .now)
            throw error
        }
        await group.drain(until: .now)
    }

    func url(_ database: String) -> String {
        "postgresql://dwell@\(host):5432/\(database)"
    }

    /// The folder of the proxy's socket, as a host in a URL.
    var host: String { folder.replacingOccurrences(of: "/", with: "%2F") }

    /// The fault that applies to the bytes from now on.
    var fault: Fault {
        get { current.withLock { $0 } }
        set { current.withLock { $0 = newValue } }
    }

    /// The numbers of bytes forwarded so far.
    var bytesToServer: Int { requestCount.withLock { $0 } }
    var bytesToClient: Int { replyCount.withLock { $0 } }

    func serve(_ client: Connection) async {
        let address = SocketAddress.unix(path: "\(server.folder)/.s.PGSQL.\(server.port)")
        guard let upstream = try? await Connection.connect(to: address, on: client.loop, until: .inSeconds(5)) else {
            return
        }
        await withTaskGroup { group in
            group.addTask { await self.copyRequests(from: client, to: upstream) }
            group.addTask { await self.copyReplies(from: upstream, to: client) }
            await group.next()
            client.close()
            upstream.close()
            group.cancelAll()
        }
    }

    private func copyRequests(from client: Connection, to upstream: Connection) async {
        while let bytes = try? await client.read(), !bytes.isEmpty {
            var forwarded = bytes[...]
            let isCut = current.withLock { fault in
                if fault == .silence { forwarded = [] }
                guard case .cutRequests(let left) = fault else { return false }
                forwarded = forwarded.prefix(left)
                fault = .cutRequests(afterBytes: left - forwarded.count)
                return forwarded.count < bytes.count
            }
            requestCount.withLock { $0 += forwarded.count }
            guard (try? await upstream.write(Array(forwarded))) != nil, !isCut else { return }
        }
    }

    private func copyReplies(from upstream: Connection, to client: Connection) async {
        while let bytes = try? await upstream.read(), !bytes.isEmpty {
            var forwarded = bytes[...]
            let isCut = current.withLock { fault in
                switch fault {
                case .silence: forwarded = []
                case .reply(let other): forwarded = other[...]
                case .cutReplies(let left):
                    forwarded = forwarded.prefix(left)
                    fault = .cutReplies(afterBytes: left - forwarded.count)
                    return forwarded.count < bytes.count
                case .none, .cutRequests: break
                }
                return false
            }
            replyCount.withLock { $0 += forwarded.count }
            guard (try? await client.write(Array(forwarded))) != nil, !isCut else { return }
        }
    }
}
