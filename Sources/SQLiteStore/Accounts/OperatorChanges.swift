// The transactions of `OperatorAccounts`. They make the same changes as the driver's own requests, but their audit
// entries name the operator's action.

import GRDB
package import Identity
package import JourneyModel

extension SQLiteAccounts: OperatorAccountStore {
    package func endAllByOperator(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> Int? {
        try await change { db in
            guard let row = try DriverRows.row(of: driver, db) else { return nil }
            let sessions = try SignInSessionRows.all(of: row, db)
            try SignInSessionRows.end(sessions, at: now, db)
            try AuditRows.add(.operatorSignOut, .done, ofOperatorTo: row, at: now, db)
            return sessions.count
        }
    }

    package func eraseByOperator(_ driver: DriverID, receipt: ErasureReceipt) async throws(AccountFailure) -> Bool {
        let erasing = Erasing(
            receipt: receipt, pseudonym: Accounts.pseudonym(), digests: digests, isByOperator: true)
        let (digest, rowsMax) = (digests.driver(driver), store.pace.rowsPerErasurePiece)
        let begin = { @Sendable (db: Database) throws -> ErasurePiece? in
            let isKnown = try DriverRows.row(of: driver, db) != nil
            guard try isKnown || !ErasureProgress.unfinished(digest, db).isEmpty else { return nil }
            return try erasing.erase(driver, rowsMax: rowsMax, db)
        }
        return try await beginErasure(begin, piece: { $0 }) != nil
    }

    // MARK: After a restore

    package func missing(_ erasures: [RecordedErasure]) async throws(AccountFailure) -> MissingErasures {
        try await read { [digests] db in try MissingErasures(erasures, digests, db) }
    }

    package func addTombstones(_ erasures: [RecordedErasure], at now: Moment) async throws(AccountFailure) {
        try await change { db in
            for erasure in erasures { try Erasing.addTombstone(erasure.digest, at: erasure.at, db) }
            try RevocationRows.add(sid: nil, at: now, db)
        }
    }

    package func finishRemoval(within timeout: Duration) async -> Bool {
        await store.finishRemoval(within: timeout)
    }
}

extension MissingErasures {
    init(_ erasures: [RecordedErasure], _ digests: KeyedHashes, _ db: Database) throws {
        self.init()
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
            // A driver first seen after the deletion is a new driver with the same id.
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
