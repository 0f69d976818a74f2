// Tests of sign-in sessions on both databases. A spent refresh token may be used again for ten seconds. A later use
// ends the session, and other processes learn this.

import Engine
import Foundation
import JourneyModel
import Secrets
import TestSupport
import Testing

@testable import Identity
@testable import SharedTables

struct RenewalTests {
    private let start = AccountFixture.start

    private func refresh(_ fixture: AccountFixture, _ token: Secret<String>, afterMilliseconds: Int64) async
        -> TokenPair?
    {
        try? await fixture.sessions.refresh(token, from: .at(start.advanced(byMilliseconds: afterMilliseconds)))
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a refresh token is spent by its use, and the new one goes on`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signInWithApple()
        let second = try #require(await refresh(fixture, first.refreshToken, afterMilliseconds: 1000))
        let third = try #require(await refresh(fixture, second.refreshToken, afterMilliseconds: 60_000))
        #expect(Set([first, second, third].map { $0.refreshToken.reveal() }).count == 3)
        #expect(try await fixture.caller(third).signInSession == fixture.caller(first).signInSession)
        #expect(try await fixture.count("sign_in_session") == 1)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `the spent token is good for ten seconds more, and then ends the session`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signInWithApple()
        let second = try #require(await refresh(fixture, first.refreshToken, afterMilliseconds: 0))
        #expect(await fixture.refusal(of: second.accessToken) == nil)
        #expect(await refresh(fixture, first.refreshToken, afterMilliseconds: 5000) != nil)
        // A refresh token stays valid for ten seconds after its first use. Further uses do not extend this time.
        #expect(await refresh(fixture, first.refreshToken, afterMilliseconds: 10_000) != nil)
        #expect(await refresh(fixture, first.refreshToken, afterMilliseconds: 10_001) == nil)
        #expect(await fixture.refusal(of: second.accessToken) == .revoked)
        #expect(await refresh(fixture, second.refreshToken, afterMilliseconds: 10_002) == nil)
        let audit = try await fixture.audit()
        #expect(audit.suffix(2) == ["refresh_reuse refused session_ended", "refresh refused unknown"])
        #expect(try await fixture.count("refresh_token") == 0)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `one token used six times within ten seconds has one successor, also in another process`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let other = try await AccountFixture(in: fixture.database)
        let first = try await fixture.signInWithApple()
        var successors: Set<String> = []
        for (number, process) in [fixture, other, fixture, other, fixture, other].enumerated() {
            let pair = try #require(await refresh(process, first.refreshToken, afterMilliseconds: Int64(number) * 1500))
            successors.insert(pair.refreshToken.reveal())
        }
        #expect(successors.count == 1)
        // All six uses returned the same new token. The table therefore has two tokens, not seven.
        #expect(try await fixture.count("refresh_token") == 2)
        #expect(try await fixture.count("refresh_token WHERE spent_at_ms IS NULL") == 1)
        await fixture.close()
        await other.close()
    }

    /// Adds 2,001 spent tokens to the only session. All of them are older than the session's unspent token.
    ///
    /// - Parameter expiresAtSQL: SQL for the expiry time of an added token. The columns are those of the unspent token.
    ///   `?2` is the number of the added token.
    private func fill(_ fixture: AccountFixture, expiresAtSQL: String) async throws {
        try await fixture.accounts.change { db in
            for number in 1...2001 {
                try db.execute(
                    sql: """
                        INSERT INTO refresh_token (digest, session, issued_at_ms, expires_at_ms, spent_at_ms)
                        SELECT ?1, session, issued_at_ms - ?2, \(expiresAtSQL), issued_at_ms
                        FROM refresh_token WHERE spent_at_ms IS NULL
                        """,
                    arguments: [(0..<32).map { _ in UInt8.random(in: 0...255) }, number])
            }
        }
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a session that is refreshed without end keeps two thousand tokens`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signInWithApple()
        try await fill(fixture, expiresAtSQL: "expires_at_ms - ?2")
        let second = try #require(await refresh(fixture, first.refreshToken, afterMilliseconds: 1))
        #expect(try await fixture.count("refresh_token") == AccountRules.refreshTokensPerSessionMax)
        #expect(await refresh(fixture, second.refreshToken, afterMilliseconds: 2) != nil)
        await fixture.close()
    }

    /// If an operator has lowered `REFRESH_TOKEN_TTL_DAYS`, a new token expires before older tokens.
    @Test(arguments: DatabaseKind.allCases)
    func `a full session keeps its new token, also if that token expires before all older ones`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signInWithApple()
        try await fill(fixture, expiresAtSQL: "expires_at_ms + 86400000")
        let second = try #require(await refresh(fixture, first.refreshToken, afterMilliseconds: 1))
        #expect(try await fixture.count("refresh_token") == AccountRules.refreshTokensPerSessionMax)
        // The presented token stays too, because a client may repeat the request.
        #expect(await refresh(fixture, first.refreshToken, afterMilliseconds: 2) != nil)
        #expect(await refresh(fixture, second.refreshToken, afterMilliseconds: 3) != nil)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `thief and victim hold the same successor, and the second of them to use it ends the session`(
        _ kind: DatabaseKind
    )
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let stolen = try await fixture.signInWithApple().refreshToken
        let victims = try #require(await refresh(fixture, stolen, afterMilliseconds: 0))
        let thiefs = try #require(await refresh(fixture, stolen, afterMilliseconds: 5000))
        #expect(thiefs.refreshToken.reveal() == victims.refreshToken.reveal())
        #expect(await refresh(fixture, thiefs.refreshToken, afterMilliseconds: 3_000_000) != nil)
        #expect(await refresh(fixture, victims.refreshToken, afterMilliseconds: 3_600_000) == nil)
        #expect(try await fixture.audit().last == "refresh_reuse refused session_ended")
        #expect(try await fixture.count("sign_in_session") == 0)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a token presented after its successor was used is reuse, also within ten seconds`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let stolen = try await fixture.signInWithApple().refreshToken
        let second = try #require(await refresh(fixture, stolen, afterMilliseconds: 0))
        let third = try #require(await refresh(fixture, second.refreshToken, afterMilliseconds: 1000))
        #expect(await refresh(fixture, stolen, afterMilliseconds: 2000) == nil)
        #expect(try await fixture.audit().last == "refresh_reuse refused session_ended")
        #expect(await fixture.refusal(of: third.accessToken) == .revoked)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `with another signing key a repeat is refused, and the session lives`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signInWithApple()
        let second = try #require(await refresh(fixture, first.refreshToken, afterMilliseconds: 0))
        await fixture.close()
        let changed = try await AccountFixture(in: fixture.database, secret: "another secret of the tests, 32 bytes")
        #expect(await refresh(changed, first.refreshToken, afterMilliseconds: 1000) == nil)
        #expect(try await changed.audit().last == "refresh refused unrepeatable")
        #expect(await refresh(changed, second.refreshToken, afterMilliseconds: 2000) != nil)
        await changed.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `two requests that race with one token both get a pair of the same session`(_ kind: DatabaseKind) async throws
    {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signInWithApple()
        let pairs = await withTaskGroup(of: TokenPair?.self) { group in
            for _ in 0..<20 { group.addTask { await refresh(fixture, first.refreshToken, afterMilliseconds: 100) } }
            return await group.reduce(into: [TokenPair]()) { pairs, pair in if let pair { pairs.append(pair) } }
        }
        #expect(pairs.count == 20)
        #expect(Set(pairs.map { $0.refreshToken.reveal() }).count == 1)
        for pair in pairs { #expect(await refresh(fixture, pair.refreshToken, afterMilliseconds: 200) != nil) }
        #expect(try await fixture.count("sign_in_session") == 1)
        #expect(try await fixture.audit().filter { $0 == "refresh done" }.count == 2)
        #expect(try await fixture.audit().filter { $0 == "refresh done repeat" }.count == 38)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a restart forgets neither the ten seconds nor the reuse`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signInWithApple()
        let second = try #require(await refresh(fixture, first.refreshToken, afterMilliseconds: 0))
        await fixture.close()
        let restarted = try await AccountFixture(in: fixture.database)
        #expect(await refresh(restarted, first.refreshToken, afterMilliseconds: 9000) != nil)
        await restarted.close()
        let again = try await AccountFixture(in: fixture.database)
        #expect(await refresh(again, first.refreshToken, afterMilliseconds: 11_000) == nil)
        #expect(await again.refusal(of: second.accessToken) == .revoked)
        await again.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a refresh token ends after sixty days, and garbage never was one`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signInWithApple()
        let end: Int64 = 60 * 86_400_000
        #expect(await refresh(fixture, first.refreshToken, afterMilliseconds: end) == nil)
        let second = try #require(await refresh(fixture, first.refreshToken, afterMilliseconds: end - 1))
        let again = try #require(await refresh(fixture, first.refreshToken, afterMilliseconds: end + 9999))
        #expect(again.refreshToken.reveal() == second.refreshToken.reveal())
        #expect(await refresh(fixture, first.refreshToken, afterMilliseconds: end + 10_000) == nil)
        #expect(try await fixture.audit().last == "refresh refused expired")
        for garbage in ["", "x", String(repeating: "é", count: 5000), first.accessToken.reveal()] {
            #expect(await refresh(fixture, Secret(garbage), afterMilliseconds: 0) == nil)
        }
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `the audit lets go of renewals after ninety days, and of nothing that says more`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        var token = try await fixture.signInWithApple().refreshToken
        let days: Int64 = 86_400_000
        for number in 0..<6 {
            token = try #require(await refresh(fixture, token, afterMilliseconds: Int64(number) * 1000)).refreshToken
        }
        token = try #require(await refresh(fixture, token, afterMilliseconds: 50 * days)).refreshToken
        #expect(try await fixture.audit().filter { $0 == "refresh done" }.count == 7)
        for number in 0..<3 {
            token = try #require(
                await refresh(fixture, token, afterMilliseconds: 91 * days + Int64(number) * 1000)
            ).refreshToken
        }
        // Old entries are deleted with every `forgettingInterval`th new one.
        for _ in 0..<AuditRows.forgettingInterval {
            try await fixture.accounts.recordRefusal(
                .signInApple, reason: "r", from: .at(AccountFixture.start.advanced(byMilliseconds: 92 * days)))
        }
        let left = try await fixture.audit()
        #expect(left.filter { $0 == "refresh done" }.count == 4)
        #expect(left.contains("sign_in_apple done new_account"))
        await fixture.close()
    }

    // MARK: Single tokens

    @Test(arguments: DatabaseKind.allCases)
    func `a single token is renewed until thirty days after its end, and a pair's access token never`(
        _ kind: DatabaseKind
    )
        async throws
    {
        let fixture = try await AccountFixture(kind)
        func renew(_ token: Secret<String>, afterDays days: Int) async -> SingleToken? {
            try? await fixture.sessions.refreshSingleToken(
                token.reveal(), from: .at(start.advanced(bySeconds: 86_400 * days)))
        }
        let single = try await fixture.signIns.signInWithSingleToken(
            .sample("001.a", nonce: "1"), profile: FirstProfile(), from: .at(start))
        #expect(await fixture.refusal(of: single.token, at: start.advanced(bySeconds: 30 * 86_400 - 1)) == nil)
        #expect(await fixture.refusal(of: single.token, at: start.advanced(bySeconds: 30 * 86_400)) == .expired)
        #expect(await renew(single.token, afterDays: 60) == nil)
        let renewed = try #require(await renew(single.token, afterDays: 59))
        #expect(await renew(renewed.token, afterDays: 118) != nil)
        let pair = try await fixture.signInWithApple("001.a")
        #expect(await renew(pair.accessToken, afterDays: 0) == nil)
        #expect(try await fixture.audit().last == "refresh refused not_a_single_token")
        let caller = try await fixture.verifier.verify(
            renewed.token.reveal(),
            atSecondsSince1970: start.advanced(bySeconds: 60 * 86_400).millisecondsSinceEpoch / 1000)
        try await fixture.sessions.signOut(caller, refreshToken: nil, from: .at(start))
        #expect(await renew(renewed.token, afterDays: 60) == nil)
        await fixture.close()
    }

    // MARK: Ends of sessions

    @Test(arguments: DatabaseKind.allCases)
    func `signing out ends this session and no other, everywhere every one`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let pairs = [
            try await fixture.signInWithApple(), try await fixture.signInWithApple(),
            try await fixture.signInWithApple(), try await fixture.signInWithApple("001.other"),
        ]
        for pair in pairs { #expect(await fixture.refusal(of: pair.accessToken) == nil) }
        try await fixture.sessions.signOut(fixture.caller(pairs[0]), refreshToken: nil, from: .at(start))
        #expect(await fixture.refusal(of: pairs[0].accessToken) == .revoked)
        #expect(await refresh(fixture, pairs[0].refreshToken, afterMilliseconds: 0) == nil)
        #expect(await fixture.refusal(of: pairs[1].accessToken) == nil)
        // A driver cannot end another driver's session by signing out with that driver's refresh token.
        try await fixture.sessions.signOut(
            fixture.caller(pairs[1]), refreshToken: pairs[3].refreshToken, from: .at(start))
        #expect(await fixture.refusal(of: pairs[3].accessToken) == nil)
        try await fixture.sessions.signOutEverywhere(fixture.caller(pairs[2]), from: .at(start))
        #expect(await fixture.refusal(of: pairs[2].accessToken) == .revoked)
        #expect(await refresh(fixture, pairs[3].refreshToken, afterMilliseconds: 0) != nil)
        #expect(try await fixture.count("sign_in_session") == 1)
        await fixture.close()
    }

    /// The request ends two sessions: the caller's session and the refresh token's session. If one cannot end, the
    /// other must not end. The driver can then repeat the request.
    @Test func `signing out of two sessions ends both or none`() async throws {
        let fixture = try await AccountFixture(.sqlite)
        let pairs = [try await fixture.signInWithApple(), try await fixture.signInWithApple()]
        let caller = try await fixture.caller(pairs[0])
        for pair in pairs {
            let sid = try #require(try await fixture.caller(pair).signInSession)
            try await fixture.accounts.change { db in
                _ = try db.execute(
                    sql: """
                        CREATE TRIGGER refuse BEFORE DELETE ON sign_in_session WHEN old.sid = '\(sid)'
                        BEGIN SELECT raise(ABORT, 'no'); END
                        """)
            }
            await #expect(throws: AccountFailure.self) {
                try await fixture.sessions.signOut(caller, refreshToken: pairs[1].refreshToken, from: .at(start))
            }
            #expect(try await fixture.count("sign_in_session") == 2)
            try await fixture.accounts.change { db in _ = try db.execute(sql: "DROP TRIGGER refuse") }
        }
        try await fixture.sessions.signOut(caller, refreshToken: pairs[1].refreshToken, from: .at(start))
        for pair in pairs { #expect(await fixture.refusal(of: pair.accessToken) == .revoked) }
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `sessions are listed, the last used first, and ended by their own driver only`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let old = try await fixture.signInWithApple()
        let new = try await fixture.signInWithApple(at: start.advanced(bySeconds: 10))
        let other = try await fixture.signInWithApple("001.other")
        _ = await refresh(fixture, old.refreshToken, afterMilliseconds: 20_000)
        let caller = try await fixture.caller(new)
        let listed = try await fixture.sessions.sessions(of: caller, at: start)
        #expect(listed.map(\.id) == [try await fixture.caller(old).signInSession, caller.signInSession])
        #expect(listed.map(\.lastUsedAt) == [20, 10].map { start.advanced(bySeconds: $0) })
        #expect(listed.first?.clientName == "DwellApp/7 (iPhone)")
        #expect(listed.first?.createdAt == start)
        let stranger = try await fixture.caller(other)
        await #expect(throws: AccountFailure.notFound) {
            try await fixture.sessions.endSession(listed[0].id, of: stranger, from: .at(start))
        }
        try await fixture.sessions.endSession(listed[0].id, of: caller, from: .at(start))
        await #expect(throws: AccountFailure.notFound) {
            try await fixture.sessions.endSession(listed[0].id, of: caller, from: .at(start))
        }
        #expect(await fixture.refusal(of: old.accessToken) == .revoked)
        #expect(try await fixture.sessions.sessions(of: caller, at: start).map(\.id) == [caller.signInSession])
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `the hundred and first session takes the place of the one used longest ago`(_ kind: DatabaseKind) async throws
    {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signInWithApple()
        for _ in 0..<99 { _ = try await fixture.signInWithApple(at: start.advanced(bySeconds: 1)) }
        // After this look-up, the status of the first session is cached.
        #expect(await fixture.refusal(of: first.accessToken) == nil)
        _ = try await fixture.signInWithApple(at: start.advanced(bySeconds: 1))
        #expect(try await fixture.count("sign_in_session") == 100)
        #expect(await fixture.refusal(of: first.accessToken) == .revoked)
        await fixture.close()
    }

    /// The second process polls the database for ended sessions.
    @Test(arguments: DatabaseKind.allCases)
    func `another store on the same database refuses what was ended here`(_ kind: DatabaseKind) async throws {
        let here = try await AccountFixture(kind)
        let there = try await AccountFixture(in: here.database)
        let polling = Task { await there.memory.run() }
        let pair = try await here.signInWithApple()
        #expect(await there.refusal(of: pair.accessToken) == nil)
        try await here.sessions.signOut(here.caller(pair), refreshToken: nil, from: .at(start))
        #expect(await here.refusal(of: pair.accessToken) == .revoked)
        var isRefused = false
        // The second process polls every 200 ms. A busy machine may take longer, so the test waits up to ten seconds.
        for _ in 0..<200 where !isRefused {
            isRefused = await there.refusal(of: pair.accessToken) == .revoked
            if !isRefused { try await Task.sleep(for: .milliseconds(50)) }
        }
        #expect(isRefused)
        polling.cancel()
        await polling.value
        await there.close()
        await here.close()
    }

    // MARK: Bounds of the sessions, the devices and the audit

    @Test(arguments: DatabaseKind.allCases)
    func `a sign-in ends the session used longest ago, also after the clock was set back`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let ahead = start.advanced(bySeconds: 86_400)
        var old: [TokenPair] = []
        for number in 0..<AccountRules.sessionsPerDriverMax {
            old.append(try await fixture.signInWithApple(at: ahead.advanced(bySeconds: number)))
        }
        let used = try #require(await refresh(fixture, old[0].refreshToken, afterMilliseconds: 0))
        let new = try await fixture.signInWithApple(at: start.advanced(bySeconds: 1))
        _ = try await fixture.signInWithApple(at: start.advanced(bySeconds: 2))
        #expect(try await fixture.count("sign_in_session") == AccountRules.sessionsPerDriverMax)
        for kept in [used, new, old[3]] {
            #expect(await refresh(fixture, kept.refreshToken, afterMilliseconds: 3000) != nil)
        }
        for ended in [old[1], old[2]] {
            #expect(await refresh(fixture, ended.refreshToken, afterMilliseconds: 3000) == nil)
        }
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a new device replaces another one, also after the clock was set back`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let caller = try await fixture.caller(try await fixture.signInWithApple())
        for number in 0...AccountRules.devicesPerDriverMax {
            let isLast = number == AccountRules.devicesPerDriverMax
            let device = Device(
                pushToken: isLast ? "last" : "token-\(number)", platform: "ios", environment: "production",
                appVersion: nil)
            let now = isLast ? start : start.advanced(bySeconds: 3600 + number)
            #expect(try await fixture.devices.put(device, of: caller, from: .at(now)))
        }
        #expect(try await fixture.count("device") == AccountRules.devicesPerDriverMax)
        #expect(try await fixture.count("device WHERE push_token = 'last'") == 1)
        #expect(try await fixture.count("device WHERE push_token = 'token-0'") == 0)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `replacing devices leaves two hundred lines of the audit, and the sign-in among the rest`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let caller = try await fixture.caller(try await fixture.signInWithApple())
        for number in 0..<600 {
            let device = Device(
                pushToken: "token-\(number)", platform: "ios", environment: "production", appVersion: nil)
            _ = try await fixture.devices.put(device, of: caller, from: .at(start))
        }
        #expect(try await fixture.count("device") == AccountRules.devicesPerDriverMax)
        let audit = try await fixture.audit()
        #expect(audit.filter { $0 == "device_added done" }.count == AuditRows.requestsPerDriverMax)
        #expect(audit.first == "sign_in_apple done new_account")
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `refused renewals and sign-outs everywhere leave two hundred lines of the audit`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let pair = try await fixture.signInWithApple()
        let external = Caller(driver: pair.user.id)
        for _ in 0..<250 {
            await #expect(throws: AccountFailure.unauthorized) {
                try await fixture.sessions.refreshSingleToken(pair.accessToken.reveal(), from: .at(start))
            }
        }
        let audit = try await fixture.audit()
        #expect(
            audit.filter { $0 == "refresh refused not_a_single_token" }.count == AuditRows.requestsPerDriverMax)
        for _ in 0..<250 { try await fixture.sessions.signOutEverywhere(external, from: .at(start)) }
        let last = try await fixture.audit()
        #expect(last.filter { $0 == "sign_out_all done" }.count == AuditRows.requestsPerDriverMax)
        #expect(last.first == "sign_in_apple done new_account")
        await fixture.close()
    }

    // MARK: Devices

    @Test(arguments: DatabaseKind.allCases)
    func `a device goes with its session, and moves to who signs in on it`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let device = Device(pushToken: "abc:def", platform: "ios", environment: "production", appVersion: "7.1")
        let first = try await fixture.caller(try await fixture.signInWithApple("001.a"))
        let second = try await fixture.caller(try await fixture.signInWithApple("001.b"))
        #expect(try await fixture.devices.put(device, of: first, from: .at(start)))
        #expect(try await !fixture.devices.put(device, of: first, from: .at(start)))
        #expect(try await fixture.devices.put(device, of: second, from: .at(start)))
        // The device has moved to the second driver. The first driver's audit must not contain the second driver's
        // address, request id or session.
        let moved = try await fixture.accounts.entries(of: first.driver, limit: 1)
        #expect(moved.map(\.action) == [.deviceRemoved])
        #expect(moved.first?.address == nil && moved.first?.requestID == nil && moved.first?.sid == nil)
        try await fixture.devices.remove(pushToken: device.pushToken, of: first, from: .at(start))
        #expect(try await fixture.count("device") == 1)
        try await fixture.sessions.signOut(first, refreshToken: nil, from: .at(start))
        #expect(try await fixture.count("device") == 1)
        await #expect(throws: AccountFailure.unauthorized) {
            try await fixture.devices.put(device, of: first, from: .at(start))
        }
        try await fixture.sessions.signOut(second, refreshToken: nil, from: .at(start))
        #expect(try await fixture.count("device") == 0)
        let external = Caller(driver: DriverID("external"))
        #expect(try await fixture.devices.put(device, of: external, from: .at(start)))
        try await fixture.devices.remove(pushToken: device.pushToken, of: external, from: .at(start))
        #expect(try await fixture.count("device") == 0)
        await fixture.close()
    }
}
