// Tells whether a store has incomplete refolds.

import Engine
import GRDB

@testable import SQLiteStore

extension SQLiteEventStore {
    func hasUnfinishedRefolds() async throws -> Bool {
        try await read { db in try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM refold)") ?? false }
    }
}
