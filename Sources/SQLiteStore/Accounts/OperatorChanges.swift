// Operations at a driver's request: `dwell driver sign-out`, `erase` and `repeat-erasures`. The same transactions
// as the driver's own requests, audited as the operator's. They run in the command's process, on the file; a
// running server reads the feed of revocations several times a second.

import GRDB
package import Identity
package import JourneyModel

extension SQLiteAccounts {
    /// Ends every sign-in session. Returns how many there were; nil for an unknown driver.
    package func endAllByOperator(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> Int? {
        try await change { db in
            guard let row = try DriverRows.row(of: driver, db) else { return nil }
            let sessions = try SignInSessionRows.all(of: row, db)
            try SignInSessionRows.end(sessions, at: now, db)
            try AuditRows.add(.operatorSignOut, .done, ofOperatorTo: row, at: now, db)
            return sessions.count
        }
    }

    /// Deletes the driver like `DELETE /auth/me`. Returns false, without a change, for an unknown one.
    package func eraseByOperator(_ driver: DriverID, receipt: ErasureReceipt) async throws(AccountFailure) -> Bool {
        let erasing = Erasing(
            receipt: receipt, pseudonym: Accounts.pseudonym(), digests: digests, isByOperator: true)
        return try await change(purgesWAL: true) { db in
            guard try DriverRows.row(of: driver, db) != nil else { return false }
            try erasing.erase(driver, db)
            return true
        }
    }

    // MARK: After a restore

    /// The deletions in the list that this database lacks.
    package func missing(_ erasures: [RecordedErasure]) async throws(AccountFailure) -> MissingErasures {
        try await read { [digests] db in try MissingErasures(erasures, digests, db) }
    }

    /// Repeats them, each driver in a separate transaction. For drivers that are not here, only their tokens are
    /// rejected.
    package func `repeat`(_ missing: MissingErasures, at now: Moment) async throws(AccountFailure) {
        for (driver, erasure) in missing.drivers {
            let receipt = ErasureReceipt(id: erasure.receipt ?? Accounts.receipt(at: now).id, deletedAt: now)
            _ = try await eraseByOperator(driver, receipt: receipt)
        }
        try await change { db in
            for erasure in missing.withoutDriver { try Erasing.bury(erasure.digest, at: erasure.at, db) }
            try RevocationRows.add(sid: nil, at: now, db)
        }
    }
}

/// Deletions recorded in another database, or a list, but not in this one.
package struct MissingErasures: Sendable {
    /// Drivers who are here again, the oldest deletion first.
    package var drivers: [(driver: DriverID, erasure: RecordedErasure)] = []
    /// Deletions of drivers without stored data; only their tokens must be rejected.
    package var withoutDriver: [RecordedErasure] = []

    init(_ erasures: [RecordedErasure], _ digests: KeyedHashes, _ db: Database) throws {
        var missing: [[UInt8]: RecordedErasure] = [:]
        let known = try ErasureRecords.all(db).reduce(into: [[UInt8]: Moment]()) { $0[$1.digest] = $1.at }
        for erasure in erasures where known[erasure.digest].map({ $0 < erasure.at }) ?? true {
            if let other = missing[erasure.digest], other.at >= erasure.at { continue }
            missing[erasure.digest] = erasure
        }
        guard !missing.isEmpty else { return }
        let rows = try Row.fetchCursor(db, sql: "SELECT driver_id, created_at_ms FROM driver")
        while let row = try rows.next() {
            let driver = DriverID(row[0])
            // A driver first seen after the deletion is a new one with the same id.
            guard let erasure = missing[digests.driver(driver)],
                Moment(millisecondsSinceEpoch: row[1]) <= erasure.at
            else { continue }
            drivers.append((driver, erasure))
            missing[erasure.digest] = nil
        }
        drivers.sort { $0.erasure.at < $1.erasure.at }
        withoutDriver = missing.values.sorted { $0.at < $1.at }
    }
}
