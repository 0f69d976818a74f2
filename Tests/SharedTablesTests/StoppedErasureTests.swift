// Tests of unfinished deletions. A stopping server cancels the task of a deletion, and another task then completes the
// deletion. A failed deletion does not affect other deletions.

import Engine
import JourneyModel
import TestSupport
import Testing

@testable import Identity
@testable import SharedTables

struct StoppedErasureTests {
    private func begin(_ number: Int, in fixture: AccountFixture) async throws {
        let driver = DriverID("external-driver-\(number)")
        for batch in 0..<3 {
            let requests = (0..<500).map { number in
                AppendRequest.sample(
                    .sample(
                        .sessionRestored, key: "\(batch)-\(number)",
                        at: AccountFixture.start.advanced(bySeconds: 500 * batch + number)),
                    of: driver, receivedAt: AccountFixture.start.advanced(bySeconds: 10_000))
            }
            for outcome in await fixture.store.append(requests) {
                guard case .stored = outcome else { throw Unexpected() }
            }
        }
        let now = AccountFixture.start.advanced(bySeconds: 10_000)
        try await fixture.accounts.erase(
            driver, receipt: ErasureReceipt(id: "rcp_\(number)", deletedAt: now), pseudonym: "erased-\(number)",
            from: .at(now))
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a deletion that fails does not keep the others from being completed`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let store = fixture.store
        for number in 1...2 { try await begin(number, in: fixture) }
        let rows = try await fixture.accounts.read { db in try store.unfinishedErasures(nil, db) }
        #expect(rows.count == 2)
        let first = try #require(rows.first)
        _ = try await fixture.accounts.change { db in
            try db.execute(sql: "UPDATE erasure SET step = 'unknown' WHERE driver = ?", arguments: [first])
        }
        await #expect(throws: AccountFailure.self) { try await fixture.accounts.completeErasures(of: nil) }
        #expect(try await fixture.accounts.read { db in try store.unfinishedErasures(nil, db) } == [first])
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a deletion of a cancelled task stops, and another task completes it`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let store = fixture.store
        try await begin(1, in: fixture)
        let row = try #require(try await fixture.accounts.read { db in try store.unfinishedErasures(nil, db) }.first)
        let failure = await Task { () async -> StoreFailure? in
            withUnsafeCurrentTask { $0?.cancel() }
            do throws(StoreFailure) {
                try await store.completeErasure(of: row)
                return nil
            } catch {
                return error
            }
        }.value
        #expect(failure == .cancelled)
        #expect(try await fixture.count("erasure") == 1)
        #expect(try await fixture.accounts.completeErasures(of: nil) == 1)
        #expect(try await fixture.count("erasure") == 0)
        await fixture.close()
    }
}
