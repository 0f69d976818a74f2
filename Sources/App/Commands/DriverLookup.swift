// Finds drivers in the database, for the commands of `dwell driver`. Changes nothing.

import Identity
import JourneyModel
import SQLiteStore
import SharedTables

enum DriverLookup {
    static func find(_ question: DriverQuery, _ configuration: Configuration) async throws -> [DriverRecord] {
        switch configuration.database {
        case .sqlite(let path):
            try reading(path) { (records: DriverRecords) throws(RecordsUnreadable) in try records.find(question) }
        case .postgres:
            try await changing(configuration) { stores, _ in try await stores.driverSearch?.find(question) ?? [] }
        }
    }

    /// Returns when the driver was deleted; nil if no deletion of the driver is recorded.
    ///
    /// A deletion is recorded under a keyed hash of the driver's id. The key is derived from the signing key. Without a
    /// signing key, the result is nil for SQLite, and the command fails for PostgreSQL.
    static func erasedAt(_ driver: DriverID, _ configuration: Configuration) async throws -> Moment? {
        switch configuration.database {
        case .sqlite(let path):
            guard let key = try configuration.tokens.existingKey() else { return nil }
            return try reading(path) { (records: DriverRecords) throws(RecordsUnreadable) in
                try records.erasedAt(driver, KeyedHashes(signingKey: key))
            }
        case .postgres:
            return try await changing(configuration) { stores, _ in
                let digests = stores.accounts.digests
                return try await stores.accounts.read { db in try DriverRows.erasedAt(driver, digests, db) }
            }
        }
    }
}
