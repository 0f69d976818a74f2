// The account services on a real file.

import Identity
import SharedTables
import TestSupport

@testable import SQLiteStore

typealias AccountFixture = TestSupport.AccountFixture<SQLiteEventStore, ScratchFolder>

extension AccountFixture {
    var folder: ScratchFolder { place }

    /// Opens the database in `folder`. If `folder` is nil, creates a folder and a database. Another fixture may have
    /// the same database open.
    init(
        in folder: ScratchFolder? = nil, database: String = "db", limits: CodeSendLimits = CodeSendLimits(),
        exchange: ScriptedExchange = ScriptedExchange(), secret: String = "a secret of the tests, 32 bytes or more",
        pace: RefoldPace = RefoldPace(), alarm: @escaping @Sendable (CodeSendUse) -> Void = { _ in }
    ) async throws {
        let folder = try folder ?? ScratchFolder(inMemory: true)
        try await self.init(
            in: folder, secret: secret, limits: limits, exchange: exchange, alarm: alarm
        ) { digests in
            let store = try SQLiteEventStore(
                pool: DatabaseOpening.open(path: folder.file(database), nowMilliseconds: 0), digests: digests,
                pace: pace, newestKeys: NewestKeys(countMax: 3))
            return (store, StoredAccounts(store: store, digests: digests), { await store.close() })
        }
    }
}
