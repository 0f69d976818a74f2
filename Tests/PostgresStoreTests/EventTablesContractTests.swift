import TestSupport
import Testing

@testable import PostgresStore

struct EventTablesContractTests {
    @Test(arguments: EventTablesContract.all)
    func `keeps the contract`(_ clause: EventTablesContract.Clause) async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in try await clause.check(stores[0]) }
    }
}
