// Tests that adding entries to the audit deletes old entries.

import Engine
import Identity
import JourneyModel
import TestSupport
import Testing

@testable import SharedTables

struct AuditTests {
    private let start = AccountFixture.start

    /// Adds a driver's renewals that are old enough to be deleted.
    private func addOld(_ count: Int, in fixture: AccountFixture) async throws {
        _ = try await fixture.signInWithApple()
        let old = start.advanced(bySeconds: -91 * 86_400)
        try await fixture.accounts.change { db in
            for number in 0..<count {
                try db.execute(
                    sql: """
                        INSERT INTO audit (at_ms, action, outcome, driver)
                        VALUES (?, 'refresh', 'done', (SELECT max(id) FROM driver))
                        """,
                    arguments: [old.advanced(byMilliseconds: Int64(number))])
            }
        }
    }

    private func oldCount(_ fixture: AccountFixture) async throws -> Int {
        try await fixture.count("audit WHERE at_ms < \(start.millisecondsSinceEpoch)")
    }

    @Test(arguments: DatabaseKind.allCases)
    func `old renewals are deleted twice as fast as new ones are added`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        try await addOld(1000, in: fixture)
        for _ in 0..<(4 * AuditRows.forgettingInterval) {
            try await fixture.accounts.recordRefusal(.signInApple, reason: "r", from: .at(start))
        }
        // If the number of a new entry is a multiple of `forgettingInterval`, old entries are deleted. On PostgreSQL, a
        // repeated transaction uses two numbers. There may therefore be three, four or five deletions.
        let left = try await oldCount(fixture)
        #expect((1000 - 5 * 128...1000 - 3 * 128).contains(left))
        await fixture.close()
    }

    @Test func `audited changes through two servers seldom get in each other's way`() async throws {
        let database = try await TestDatabase(.postgresql)
        let log = LoggedLines()
        let one = try await AccountFixture(in: database, logger: log.logger)
        let other = try await AccountFixture(in: database, logger: log.logger)
        try await addOld(2_000, in: one)
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<128 {
                let accounts = index % 2 == 0 ? one.accounts : other.accounts
                group.addTask {
                    do {
                        try await accounts.recordRefusal(.signInApple, reason: "r", from: .at(start))
                    } catch { Issue.record("\(error)") }
                }
            }
        }
        #expect(log.lines.count { $0.contains("a transaction is run again") } < 16)
        await one.close()
        await other.close()
    }
}
