// The transactions of `OperatorAccounts`. They make the same changes as the driver's own requests, but record them in
// the audit as the operator's actions.

package import Identity
package import JourneyModel

extension StoredAccounts: OperatorAccountStore {
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
            receipt: receipt, pseudonym: Accounts.pseudonym(), digests: digests, events: store, isByOperator: true)
        let (store, digest) = (store, digests.driver(driver))
        let erase = { @Sendable (db: any SQLTransaction) throws -> ChangeEffects? in
            let isKnown = try DriverRows.row(of: driver, db) != nil
            guard try isKnown || !store.unfinishedErasures(digest, db).isEmpty else { return nil }
            return try erasing.erase(driver, db)
        }
        return try await beginErasure(effects: { $0 ?? ChangeEffects() }, erase) != nil
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
    init(_ erasures: [RecordedErasure], _ digests: KeyedHashes, _ db: any SQLTransaction) throws {
        self.init()
        var missing: [[UInt8]: RecordedErasure] = [:]
        let known = try ErasureRows.times(of: erasures.map(\.digest), db)
        for erasure in erasures where known[erasure.digest].map({ $0 < erasure.at }) ?? true {
            if let other = missing[erasure.digest], other.at >= erasure.at { continue }
            missing[erasure.digest] = erasure
        }
        guard !missing.isEmpty else { return }
        var last = Int64.min
        while true {
            let rows = try SQLRow.fetchAll(
                db, sql: "SELECT id, driver_id, created_at_ms FROM driver WHERE id > ? ORDER BY id LIMIT 1000",
                arguments: [last])
            for row in rows {
                last = try row[0]
                let driver = DriverID(try row[1])
                // A driver whose row was created after the deletion is a new driver with the same id. This driver keeps
                // its rows.
                guard let erasure = missing[digests.driver(driver)], try row[2] <= erasure.at else { continue }
                drivers.append((driver, erasure))
                missing[erasure.digest] = nil
            }
            if rows.isEmpty { break }
        }
        drivers.sort { $0.erasure.at < $1.erasure.at }
        withoutDriver = missing.values.sorted { $0.at < $1.at }
    }
}
