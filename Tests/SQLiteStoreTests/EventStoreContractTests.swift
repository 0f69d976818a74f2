// Runs the contract of the port `EventStore` against the SQLite store, and against the in-memory store that other tests
// use.

import Engine
import TestSupport
import Testing

@testable import SQLiteStore

struct EventStoreContractTests {
    @Test(arguments: EventStoreContract.all)
    func `SQLite keeps the contract`(_ clause: EventStoreContract.Clause) async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        try await clause.check(store)
        await store.close()
    }

    @Test(arguments: EventStoreContract.all)
    func `SQLite keeps the contract while it moves keys`(_ clause: EventStoreContract.Clause) async throws {
        let folder = try ScratchFolder()
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        let store = try SQLiteEventStore(pool: pool, newestKeys: NewestKeys(countMax: 1))
        try await clause.check(store)
        await store.close()
    }

    @Test(arguments: EventStoreContract.all)
    func `memory keeps the contract`(_ clause: EventStoreContract.Clause) async throws {
        try await clause.check(MemoryEventStore())
    }

    /// Runs all clauses on the same store. This shows that the clauses also hold on a store that already has events.
    @Test func `SQLite keeps all clauses in one database`() async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        for clause in EventStoreContract.all { try await clause.check(store) }
        await store.close()
    }
}
