// The databases of the account and transfer tests. The other suites of this target use TestedDatabase.

import Engine
import Foundation
import Identity
import Logging
import Postgres
import PostgresStore
import SQLiteStore
import SharedTables
import Sockets
import TestSupport
import Testing

enum DatabaseKind: CaseIterable, Sendable {
    case sqlite
    case postgresql
}

/// A new database. Several stores may have it open at the same time. Each store represents a process.
final class TestDatabase: Sendable {
    let kind: DatabaseKind
    /// The folder of SQLite's file.
    private let folder: String
    /// The URL of the PostgreSQL database, or of a schema if DWELL_TEST_CITUS_URL names a Citus cluster. For SQLite,
    /// nil.
    private let url: String?

    /// A store, and the function that closes it.
    typealias Opened = (store: any AccountDatabase & EventStore, close: @Sendable () async -> Void)

    static let loops: EventLoopGroup = {
        do { return try EventLoopGroup(count: 2) } catch { preconditionFailure("no event loop: \(error)") }
    }()

    init(_ kind: DatabaseKind) async throws {
        self.kind = kind
        folder = NSTemporaryDirectory() + "dwell-\(UUID().uuidString)"
        switch kind {
        case .sqlite:
            url = nil
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        case .postgresql:
            let url: String
            if let cluster = CitusCluster.named {
                url = try await cluster.url(schema: cluster.createSchema())
            } else {
                let server = try await PostgresServer.shared()
                url = try await server.url(server.createDatabase())
            }
            _ = try await PostgresEventStore.migrate(
                try PostgresConfiguration(url: url), on: Self.loops.next(), atMilliseconds: 1, until: .inSeconds(30))
            self.url = url
        }
    }

    deinit {
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// SQLite's file.
    var path: String { folder + "/db" }

    /// PostgreSQL's database.
    var configuration: PostgresConfiguration {
        get throws { try PostgresConfiguration(url: try #require(url)) }
    }

    static let silent = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

    func open(_ digests: KeyedHashes, logger: Logger = silent) throws -> Opened {
        if url != nil {
            let store = PostgresEventStore(
                try configuration, writersMax: 2, readersMax: 2, loops: Self.loops, digests: digests,
                logger: logger)
            let running = Task { await store.run() }
            return (
                store,
                {
                    await store.close()
                    await running.value
                }
            )
        }
        let store = try SQLiteEventStore(path: path, nowMilliseconds: 0, digests: digests)
        return (store, { await store.close() })
    }
}
