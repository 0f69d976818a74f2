import TestSupport
import Testing

@testable import PostgresStore

struct SQLDatabaseContractTests {
    @Test(arguments: SQLDatabaseContract.all)
    func `PostgreSQL keeps the contract of transactions`(_ clause: SQLDatabaseContract.Clause) async throws {
        let database = try await StoreFixture.database()
        try await StoreFixture.withStores(on: database) { (stores) async throws in try await clause.check(stores[0]) }
    }
}
