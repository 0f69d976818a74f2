import SQLiteStore
import TestSupport
import Testing

struct EventTablesContractTests {
    @Test(arguments: EventTablesContract.all)
    func `keeps the contract`(_ clause: EventTablesContract.Clause) async throws {
        let folder = try ScratchFolder()
        let store = try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
        try await clause.check(store)
        await store.close()
    }
}
