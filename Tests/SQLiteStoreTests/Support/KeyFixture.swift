// A database for tests of idempotency keys. Its stores hold few keys in memory.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct KeyFixture {
    let path: String
    let driver = DriverID("driver")
    /// A simulated driver, which `removeSimulatedDrivers` deletes together with its events.
    let simulated = DriverID("\(DriverID.simulatedPrefix)1")
    private let folder: ScratchFolder

    init() throws {
        folder = try ScratchFolder(inMemory: true)
        path = folder.file("db")
    }

    /// Opens a store that begins to move keys to `event_key` when `countMax` events are in memory. Each store
    /// represents a process. An abandoned store represents a killed process.
    func open(countMax: Int) throws -> SQLiteEventStore {
        try SQLiteEventStore(
            pool: DatabaseOpening.open(path: path, nowMilliseconds: 0), newestKeys: NewestKeys(countMax: countMax))
    }

    func request(_ number: Int, of driver: DriverID? = nil) -> AppendRequest {
        .sample(
            .sample(.diagnostic("d"), key: "key-\(number)", at: .sample.advanced(bySeconds: number)),
            of: driver ?? self.driver, receivedAt: .sample.advanced(bySeconds: number))
    }

    /// Makes the database reject event `number`. The rejection comes after the event's row is written and its key is in
    /// memory.
    func refuse(_ number: Int, _ raise: String = "ABORT", in store: SQLiteEventStore) async throws {
        try await store.change { db in
            // If another connection has dropped the trigger, this connection may not know that. IF NOT EXISTS makes
            // SQLite read the schema again.
            try db.execute(
                sql: """
                    CREATE TRIGGER IF NOT EXISTS refused BEFORE UPDATE ON driver
                    WHEN EXISTS (SELECT 1 FROM event_row WHERE key = 'key-\(number)')
                    BEGIN SELECT RAISE(\(raise), 'refused'); END
                    """)
        }
    }

    func acceptAll(in store: SQLiteEventStore) async throws {
        try await store.change { db in try db.execute(sql: "DROP TRIGGER refused") }
    }

    func append(_ numbers: some Sequence<Int>, of driver: DriverID? = nil, to store: SQLiteEventStore) async throws {
        for number in numbers {
            guard case .stored = await store.append(request(number, of: driver)) else {
                Issue.record("event \(number) is not stored")
                return
            }
        }
    }

    func expectRepeats(_ numbers: some Sequence<Int>, in store: SQLiteEventStore) async throws {
        for number in numbers {
            let request = request(number)
            let found = try await store.lookUp(request.submission, of: driver)
            guard case .replayed? = found, case .replayed = await store.append(request) else {
                Issue.record("event \(number) is found as \(String(describing: found))")
                return
            }
        }
    }

    /// The content of the tables of idempotency keys. `rows` and `early` are sorted.
    struct Listed {
        /// The numbers in `event_key`.
        var rows: [Int64]
        var through: Int64
        var early: [Int64]
        /// The count of event numbers above `through`. Events with such a number need no row in `event_key`.
        var unlistedCount: Int64
    }

    func listed() throws -> Listed {
        try DatabaseQueue(path: path).read { db in
            let through = try Int64.fetchOne(db, sql: "SELECT listed_through FROM event_key_progress") ?? -1
            return Listed(
                rows: try Int64.fetchAll(db, sql: "SELECT number FROM event_key ORDER BY number"), through: through,
                early: try Int64.fetchAll(db, sql: "SELECT number FROM event_key_early ORDER BY number"),
                unlistedCount: try StoredEvents.lastNumber(db) - through)
        }
    }

    func problems() throws -> [String] {
        let check = try DatabaseCheck(path: path)
        defer { check.close() }
        return try check.run { _ in }.problems
    }

    /// Changes the file without the stores.
    func doctor(_ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        try queue.write { db in
            try db.execute(sql: sql)
            try #require(db.changesCount > 0)
        }
    }
}
