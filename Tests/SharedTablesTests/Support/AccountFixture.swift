// The account services on a real database of either kind.

import Engine
import Identity
import Logging
import SharedTables
import TestSupport

typealias AccountFixture = TestSupport.AccountFixture<any AccountDatabase & EventStore, TestDatabase>

extension AccountFixture {
    var database: TestDatabase { place }

    /// Creates a database.
    init(
        _ kind: DatabaseKind, limits: CodeSendLimits = CodeSendLimits(),
        exchange: ScriptedExchange = ScriptedExchange(),
        alarm: @escaping @Sendable (CodeSendUse) -> Void = { _ in }
    ) async throws {
        try await self.init(in: TestDatabase(kind), limits: limits, exchange: exchange, alarm: alarm)
    }

    /// Opens a database. Another fixture may have it open too.
    init(
        in database: TestDatabase, limits: CodeSendLimits = CodeSendLimits(),
        exchange: ScriptedExchange = ScriptedExchange(), secret: String = "a secret of the tests, 32 bytes or more",
        alarm: @escaping @Sendable (CodeSendUse) -> Void = { _ in }, logger: Logger = TestDatabase.silent
    ) async throws {
        try await self.init(
            in: database, secret: secret, limits: limits, exchange: exchange, alarm: alarm
        ) { digests in
            let (store, close) = try database.open(digests, logger: logger)
            return (store, StoredAccounts(store: store, digests: digests), close)
        }
    }
}
