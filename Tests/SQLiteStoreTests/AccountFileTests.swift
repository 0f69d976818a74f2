// Tests of accounts that read SQLite's file directly, or that test what only the SQLite store does. Tests of accounts
// that run on both databases are in Tests/SharedTablesTests.

import Engine
import GRDB
import Identity
import JourneyModel
import Logging
import Secrets
import TestSupport
import Testing

@testable import SQLiteStore
@testable import SharedTables

struct AccountFileTests {
    private let start = AccountFixture.start

    @Test func `lines about nobody have a bound beside their age`() async throws {
        let fixture = try await AccountFixture()
        try await fixture.accounts.recordRefusal(.signInApple, reason: "first", from: .at(start))
        // Old entries are deleted when the number of a new audit entry is a multiple of `forgettingInterval`. The test
        // raises the counter of row numbers, so that the next number is such a multiple.
        //
        // The new entry thus deletes the first entry, whose number is at least `passingMax` below the new entry's
        // number.
        let interval = AuditRows.forgettingInterval
        let next = (AuditRows.passingMax / interval + 1) * interval
        try await fixture.store.change { db in
            try db.execute(
                sql: "UPDATE sqlite_sequence SET seq = ? WHERE name = 'audit'", arguments: [next - 1])
        }
        try await fixture.accounts.recordRefusal(.signInApple, reason: "second", from: .at(start))
        #expect(try await fixture.audit() == ["sign_in_apple refused second"])
        await fixture.close()
    }

    @Test func `lines of the audit are deleted after their days, receipts never`() async throws {
        let fixture = try await AccountFixture()
        let first = try await fixture.caller(try await fixture.signInWithApple("001.a"))
        _ = try await fixture.own.erase(first, from: .at(start))
        _ = try await fixture.signInWithApple("001.b")
        let young = start.advanced(bySeconds: 364 * 86_400)
        _ = try await fixture.signInWithApple("001.c", at: young)
        let keeping = RetentionService(
            store: fixture.store, days: nil, auditDays: 365,
            clock: { [start] in start.advanced(bySeconds: 365 * 86_400 + 1) },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        #expect(try await keeping.round() == RetentionService.Deleted(auditLines: 2))
        let audit = try await fixture.audit()
        #expect(audit.count == 2 && audit[0].hasPrefix("erased done rcp_"))
        #expect(audit[1] == "sign_in_apple done new_account")
        await fixture.close()
    }

    @Test func `neither codes nor numbers nor tokens are in the file where they need not be`() async throws {
        let fixture = try await AccountFixture()
        try await fixture.signIns.sendCode(to: "+4915199999999", from: .at(AccountFixture.start))
        let pair = try await fixture.signInWithApple()
        await fixture.close()
        let found = try ErasureScan(path: fixture.folder.file("db")).find([
            "+4915199999999", pair.refreshToken.reveal(), pair.accessToken.reveal(),
        ])
        #expect(found.isEmpty)
    }
}
