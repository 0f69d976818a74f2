// The functions of SharedTables that this store calls with a connection of GRDB.

import GRDB
import Identity
import JourneyModel
import SharedTables

extension StoredAccounts {
    func change<Outcome: Sendable>(
        keepsDriverCache: Bool = false, _ change: @escaping @Sendable (Database) throws -> Outcome
    ) async throws(AccountFailure) -> Outcome {
        try await self.change(keepsDriverCache: keepsDriverCache) { (db: any SQLTransaction) in
            try change(Database.of(db))
        }
    }

    func read<Value: Sendable>(
        _ value: @escaping @Sendable (Database) throws -> Value
    ) async throws(AccountFailure) -> Value {
        try await read { (db: any SQLTransaction) in try value(Database.of(db)) }
    }
}

extension DriverRows {
    static func row(of driver: DriverID, _ db: Database) throws -> Int64? {
        try row(of: driver, SQLiteTransaction(db))
    }

    static func rowOrNew(of caller: Caller, at now: Moment, _ digests: KeyedHashes, _ db: Database) throws -> Int64 {
        try rowOrNew(of: caller, at: now, digests, SQLiteTransaction(db))
    }
}

extension AuditRows {
    static func add(
        _ action: AuditAction, _ outcome: AuditOutcome, ofOperatorTo driver: Int64, at now: Moment, _ db: Database
    ) throws {
        try add(action, outcome, ofOperatorTo: driver, at: now, SQLiteTransaction(db))
    }
}

extension DeviceRows {
    static func device(_ row: Row, at index: Int) throws -> Device { try device(SQLRow(row), at: index) }

    static func removeUnregistered(
        _ device: Int64, registeredBefore moment: Moment, at now: Moment, _ db: Database
    ) throws {
        try removeUnregistered(device, registeredBefore: moment, at: now, SQLiteTransaction(db))
    }
}
