// Tests of a deletion whose task is cancelled, as in a server that stops: the deletion remains unfinished, and another
// task completes it, as the next start does.

import Engine
import JourneyModel
import TestSupport
import Testing

@testable import Identity
@testable import SharedTables

struct StoppedErasureTests {
    private let driver = DriverID("external-driver")

    @Test(arguments: DatabaseKind.allCases)
    func `a deletion of a cancelled task stops, and another task completes it`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let store = fixture.store
        for batch in 0..<3 {
            let requests = (0..<500).map { number in
                AppendRequest.sample(
                    .sample(
                        .sessionRestored, key: "\(batch)-\(number)",
                        at: AccountFixture.start.advanced(bySeconds: 500 * batch + number)),
                    of: driver, receivedAt: AccountFixture.start.advanced(bySeconds: 10_000))
            }
            for outcome in await store.append(requests) {
                guard case .stored = outcome else { throw Unexpected() }
            }
        }
        let now = AccountFixture.start.advanced(bySeconds: 10_000)
        // The first transaction of the deletion.
        try await fixture.accounts.erase(
            driver, receipt: ErasureReceipt(id: "rcp_1", deletedAt: now), pseudonym: "erased-1", from: .at(now))
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
