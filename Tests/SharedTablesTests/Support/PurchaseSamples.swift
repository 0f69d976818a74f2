// Purchases in the databases of these tests.

import Identity
import JourneyModel
import Purchases
import TestSupport

@testable import SharedTables

extension PurchaseSamples {
    static func purchases(_ opened: any RestartableStore) throws -> StoredPurchases {
        StoredPurchases(store: opened.store, digests: try Sample.digests())
    }

    static func erase(_ driver: String, _ store: any SQLDatabase) async throws {
        try await store.change { db in
            guard let row = try DriverRows.row(of: DriverID(driver), db) else { throw Unexpected() }
            try PurchaseRows.erase(row, db)
        }
    }

    static func payloads(_ table: String, _ store: any SQLDatabase) async throws -> [String] {
        try await store.read { db in try [UInt8].fetchAll(db, sql: "SELECT payload FROM \(table)") }.map {
            String(decoding: $0, as: UTF8.self)
        }
    }
}

struct Unexpected: Error {}
