// The databases of the tests of purchases, notifications and operation rows. Each test has its own database. The other
// suites of this target use TestDatabase.

import Foundation
import Identity
import JourneyModel
import Logging
import Postgres
import PostgresStore
import SQLiteStore
import Secrets
import SharedTables
import Sockets
import TestSupport

enum TestedDatabase: String, CaseIterable, Sendable, CustomStringConvertible {
    case sqlite = "SQLite"
    case postgres = "PostgreSQL"

    var description: String { rawValue }

    func open() async throws -> any RestartableStore {
        switch self {
        case .sqlite: try SQLiteFileOfTest()
        case .postgres: try await PostgresDatabaseOfTest()
        }
    }

    /// Runs the body with a new database.
    func with<Value>(_ body: (any SQLDatabase) async throws -> Value) async throws -> Value {
        let opened = try await open()
        do {
            let value = try await body(opened.store)
            await opened.close()
            return value
        } catch {
            await opened.close()
            throw error
        }
    }
}

enum Sample {
    static let now = Moment(millisecondsSinceEpoch: 1_770_091_506_000)

    static func digests() throws -> KeyedHashes {
        KeyedHashes(signingKey: try SigningKey(secret: Secret("a secret of the tests, 32 bytes or more")))
    }
}

extension SQLDatabase {
    func count(_ table: String) async throws -> Int {
        try await read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM \(table)") ?? -1 }
    }
}

/// The store is replaced at each restart; the database stays.
protocol RestartableStore: AnyObject {
    var store: any SQLDatabase { get }
    func closeAndOpen() async throws
    func crashAndOpen() async throws
    func close() async
}

// MARK: SQLite

private final class SQLiteFileOfTest: RestartableStore {
    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent("dwell-\(UUID().uuidString)")
    private var number = 0
    private var opened: SQLiteEventStore

    var store: any SQLDatabase { opened }

    init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        opened = try SQLiteEventStore(
            path: folder.appendingPathComponent("0").path, nowMilliseconds: 0, digests: try Sample.digests())
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    private func file(_ number: Int) -> String { folder.appendingPathComponent("\(number)").path }

    private func openFile() throws {
        opened = try SQLiteEventStore(path: file(number), nowMilliseconds: 0, digests: try Sample.digests())
    }

    func closeAndOpen() async throws {
        await opened.close()
        try openFile()
    }

    /// The shared-memory file is left out. Recovery creates it again.
    func crashAndOpen() async throws {
        let crashed = opened
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: file(number) + suffix) {
            try FileManager.default.copyItem(atPath: file(number) + suffix, toPath: file(number + 1) + suffix)
        }
        number += 1
        try openFile()
        await crashed.close()
    }

    func close() async { await opened.close() }
}

// MARK: PostgreSQL

private final class PostgresDatabaseOfTest: RestartableStore {
    private static let loops: EventLoopGroup = {
        do { return try EventLoopGroup(count: 1) } catch { preconditionFailure("no event loop: \(error)") }
    }()

    private let configuration: PostgresConfiguration
    private var opened: PostgresEventStore
    private var running: Task<Void, Never>

    var store: any SQLDatabase { opened }

    init() async throws {
        let server = try await PostgresServer.shared()
        configuration = try PostgresConfiguration(url: server.url(try await server.createDatabase()))
        _ = try await PostgresEventStore.migrate(
            configuration, on: Self.loops.next(), atMilliseconds: 1, until: .inSeconds(30))
        (opened, running) = Self.run(configuration)
    }

    private static func run(_ configuration: PostgresConfiguration) -> (PostgresEventStore, Task<Void, Never>) {
        let store = PostgresEventStore(
            configuration, writersMax: 1, readersMax: 1, loops: loops, requestSeconds: 30,
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        return (store, Task { await store.run() })
    }

    func closeAndOpen() async throws {
        await close()
        (opened, running) = Self.run(configuration)
    }

    func crashAndOpen() async throws {
        let crashed = running
        (opened, running) = Self.run(configuration)
        crashed.cancel()
        await crashed.value
    }

    func close() async {
        await opened.close()
        await running.value
    }
}
