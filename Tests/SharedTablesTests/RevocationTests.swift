// Tests of the feed of revocations, from which every process updates its status cache. The feed must contain every
// revocation, even if several processes end sessions at the same time.

import JourneyModel
import TestSupport
import Testing

@testable import Identity
@testable import SharedTables

struct RevocationTests {
    @Test(arguments: DatabaseKind.allCases)
    func `sessions that two processes end at the same time are all in the feed, numbered without a gap`(
        _ kind: DatabaseKind
    ) async throws {
        let here = try await AccountFixture(kind)
        let there = try await AccountFixture(in: here.database)
        var callers: [Caller] = []
        for number in 0..<16 {
            callers.append(try await here.caller(here.signInWithApple("001.\(number)")))
        }
        let begin = try await here.accounts.revocations(after: nil).last
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, caller) in callers.enumerated() {
                let process = number.isMultiple(of: 2) ? here : there
                group.addTask {
                    try await process.sessions.signOut(caller, refreshToken: nil, from: .at(AccountFixture.start))
                }
            }
            try await group.waitForAll()
        }
        let feed = try await there.accounts.revocations(after: begin)
        #expect(!feed.concernsAll && feed.last == begin + 16)
        #expect(Set(feed.sids) == Set(callers.compactMap(\.signInSession)) && feed.sids.count == 16)
        await here.close()
        await there.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a deletion concerns all, and the feed goes on after it`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.caller(fixture.signInWithApple("001.a"))
        let second = try await fixture.caller(fixture.signInWithApple("001.b"))
        let begin = try await fixture.accounts.revocations(after: nil).last
        _ = try await fixture.own.erase(first, from: .at(AccountFixture.start))
        let deleted = try await fixture.accounts.revocations(after: begin)
        #expect(deleted.concernsAll && deleted.last > begin)
        try await fixture.sessions.signOut(second, refreshToken: nil, from: .at(AccountFixture.start))
        let next = try await fixture.accounts.revocations(after: deleted.last)
        #expect(!next.concernsAll && next.sids == [second.signInSession])
        await fixture.close()
    }
}
