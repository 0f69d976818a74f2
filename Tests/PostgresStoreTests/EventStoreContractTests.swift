import TestSupport
import Testing

@testable import PostgresStore

struct EventStoreContractTests {
    @Test(arguments: EventStoreContract.all)
    func `keeps the contract`(_ clause: EventStoreContract.Clause) async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in try await clause.check(stores[0]) }
    }
}
