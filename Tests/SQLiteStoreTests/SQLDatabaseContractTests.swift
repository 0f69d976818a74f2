// Runs the contract of the port `SQLDatabase` against SQLite.

import SQLiteStore
import TestSupport
import Testing

struct SQLDatabaseContractTests {
    @Test(arguments: SQLDatabaseContract.all)
    func `SQLite keeps the contract of transactions`(_ clause: SQLDatabaseContract.Clause) async throws {
        let folder = try ScratchFolder(inMemory: true)
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        try await clause.check(store)
        await store.close()
    }
}
