// Tests of sign-ins on both databases: which account a sign-in gets, and credentials that can be used only once. After
// a restart, used credentials are still rejected.

import Foundation
import JourneyModel
import Secrets
import Synchronization
import TestSupport
import Testing

@testable import Identity
@testable import SharedTables

struct SignInTests {
    // MARK: Apple

    @Test(arguments: DatabaseKind.allCases)
    func `the same subject is the same driver, another subject another`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signInWithApple("001.a")
        let again = try await fixture.signInWithApple("001.a")
        let other = try await fixture.signInWithApple("001.b")
        #expect(first.user.id == again.user.id)
        #expect(first.user.id != other.user.id)
        #expect(!first.user.id.rawValue.contains("001"))
        #expect(try await fixture.caller(first).signInSession != fixture.caller(again).signInSession)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `nobody is found by an email`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let email = "driver@example.com"
        let first = try await fixture.signIns.signIn(
            .sample("001.a", nonce: "1", email: email), authorizationCode: nil, profile: FirstProfile(),
            from: .at(AccountFixture.start))
        let second = try await fixture.signIns.signIn(
            .sample("001.b", nonce: "2", email: email), authorizationCode: nil, profile: FirstProfile(email: email),
            from: .at(AccountFixture.start))
        #expect(first.user.email == email)
        #expect(second.user.email == email)
        #expect(first.user.id != second.user.id)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `the request's profile counts once, Apple's word for the email more, and no role is given for asking`(
        _ kind: DatabaseKind
    )
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let asked = FirstProfile(name: "Ada", email: "asked@example.com", role: "admin")
        let first = try await fixture.signIns.signIn(
            .sample("001.a", nonce: "1", email: "apple@example.com"), authorizationCode: nil, profile: asked,
            from: .at(AccountFixture.start))
        #expect(
            first.user
                == User(id: first.user.id, name: "Ada", email: "apple@example.com", phone: nil, role: "driver"))
        #expect(try await fixture.caller(first).role == "driver")
        let later = try await fixture.signInWithApple(
            "001.a", profile: FirstProfile(name: "Eve", email: "e@example.com"))
        #expect(later.user == first.user)
        let unverified = try await fixture.signIns.signIn(
            .sample("001.b", nonce: "3", email: "claimed@example.com", isVerified: false), authorizationCode: nil,
            profile: FirstProfile(name: "a\nb"), from: .at(AccountFixture.start))
        #expect(unverified.user.email == nil)
        #expect(unverified.user.name == nil)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a nonce signs in once, also across a restart, and of many at once one`(_ kind: DatabaseKind) async throws {
        let first = try await AccountFixture(kind)
        let outcomes = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<50 {
                group.addTask {
                    (try? await first.signInWithApple(nonce: "the nonce", token: "token \(number)")) != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(outcomes == 1)
        await first.close()
        let second = try await AccountFixture(in: first.database)
        await #expect(throws: AccountFailure.unauthorized) {
            try await second.signInWithApple(nonce: "the nonce", token: "another token")
        }
        #expect(try await second.count("account") == 1)
        #expect(try await second.count("sign_in_session") == 1)
        #expect(try await second.audit().filter { $0 == "sign_in_apple refused nonce_used" }.count == 50)
        await second.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a used nonce stays used for a day after its token has expired`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let identity = AppleIdentity.sample("001.a", nonce: "1", token: "t")
        let expiry = Moment(millisecondsSinceEpoch: identity.expiresAtSeconds * 1000)
        _ = try await fixture.signIns.signIn(
            identity, authorizationCode: nil, profile: FirstProfile(), from: .at(AccountFixture.start))
        _ = try await fixture.signInWithApple("001.b", at: expiry.advanced(bySeconds: 60))
        // This request's head arrived before the token expired. Its body arrived after the sign-in above.
        await #expect(throws: AccountFailure.unauthorized) {
            try await fixture.signIns.signInWithSingleToken(
                identity, profile: FirstProfile(), from: .at(expiry.advanced(bySeconds: -1)))
        }
        _ = try await fixture.signInWithApple("001.b", at: expiry.advanced(bySeconds: 86_400))
        #expect(try await fixture.count("apple_nonce") == 1)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a sign-in sent again within ten seconds is answered with the same session and refresh token`(
        _ kind: DatabaseKind
    )
        async throws
    {
        let first = try await AccountFixture(kind)
        // A second process that uses the same database.
        let other = try await AccountFixture(in: first.database)
        func signIn(_ fixture: AccountFixture, after milliseconds: Int64 = 0) async -> TokenPair? {
            try? await fixture.signInWithApple(
                nonce: "n", token: "t", code: "code", at: AccountFixture.start.advanced(byMilliseconds: milliseconds))
        }
        let made = try #require(await signIn(first))
        let sid = try await first.caller(made).signInSession
        let pairs = await withTaskGroup(of: TokenPair?.self) { group in
            for fixture in [first, other, first, other] { group.addTask { await signIn(fixture, after: 1000) } }
            return await group.reduce(into: [TokenPair]()) { pairs, pair in if let pair { pairs.append(pair) } }
        }
        #expect(pairs.count == 4)
        #expect(pairs.allSatisfy { $0.refreshToken.reveal() == made.refreshToken.reveal() && $0.user == made.user })
        for pair in pairs { #expect(try await first.caller(pair).signInSession == sid) }
        await first.close()
        await other.close()
        let restarted = try await AccountFixture(in: first.database)
        #expect(await signIn(restarted, after: 10_000)?.refreshToken.reveal() == made.refreshToken.reveal())
        #expect(await signIn(restarted, after: 10_001) == nil)
        #expect(try await restarted.count("sign_in_session") == 1)
        #expect(try await restarted.count("refresh_token") == 1)
        let audit = try await restarted.audit()
        #expect(audit.filter { $0 == "sign_in_apple done repeat" }.count == 5)
        #expect(audit.last == "sign_in_apple refused nonce_used")
        await restarted.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a sign-in whose answer was used is not repeated, nor one that has ended, nor as another kind`(
        _ kind: DatabaseKind
    )
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let identity = AppleIdentity.sample("001.a", nonce: "1", token: "t")
        func single(_ identity: AppleIdentity) async -> SingleToken? {
            try? await fixture.signIns.signInWithSingleToken(
                identity, profile: FirstProfile(), from: .at(AccountFixture.start))
        }
        let pair = try await fixture.signIns.signIn(
            identity, authorizationCode: nil, profile: FirstProfile(), from: .at(AccountFixture.start))
        #expect(await single(identity) == nil)
        _ = try await fixture.sessions.refresh(pair.refreshToken, from: .at(AccountFixture.start))
        await #expect(throws: AccountFailure.unauthorized) {
            try await fixture.signIns.signIn(
                identity, authorizationCode: nil, profile: FirstProfile(), from: .at(AccountFixture.start))
        }
        // The second and third use of the identity token were rejected. They do not end the session of the first use.
        #expect(await fixture.refusal(of: pair.accessToken) == nil)
        let legacy = AppleIdentity.sample("001.a", nonce: "2", token: "u")
        let (one, two) = (try #require(await single(legacy)), try #require(await single(legacy)))
        var callers: [Caller] = []
        for single in [one, two] {
            callers.append(
                try await fixture.verifier.verify(
                    single.token.reveal(), atSecondsSince1970: AccountFixture.start.millisecondsSinceEpoch / 1000))
        }
        #expect(callers[0].signInSession == callers[1].signInSession)
        try await fixture.sessions.signOut(callers[0], refreshToken: nil, from: .at(AccountFixture.start))
        #expect(await single(legacy) == nil)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `an exchanged code's token is kept, and an exchange that fails keeps nobody out`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let pair = try await fixture.signInWithApple(code: "code")
        let kept = try await fixture.accounts.read { db in
            try [UInt8].fetchOne(db, sql: "SELECT sealed_refresh_token FROM apple_refresh_token")
        }
        #expect(kept == Array("sealed apple refresh token".utf8))
        await fixture.close()
        let failing = try await AccountFixture(
            in: fixture.database, exchange: ScriptedExchange(.failed(reason: "unreachable")))
        #expect(try await failing.signInWithApple(code: "code").user.id == pair.user.id)
        #expect(try await failing.audit().last == "apple_code_exchange failed unreachable")
        await failing.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a late notice of a revoked consent does not end a sign-in from after it`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let again = AccountFixture.start.advanced(bySeconds: 7200)
        let againSeconds = again.millisecondsSinceEpoch / 1000
        func take(_ jti: String, revokedAtSeconds: Int64?) async throws {
            try await fixture.own.take(
                AppleServerNotification(
                    kind: .consentRevoked, subject: "001.a", jti: jti, happenedAtSeconds: revokedAtSeconds),
                from: .at(AccountFixture.start.advanced(bySeconds: 86_400)))
        }
        let first = try await fixture.signInWithApple("001.a", code: "code")
        let second = try await fixture.signInWithApple("001.a", code: "code", at: again)
        try await take("1", revokedAtSeconds: againSeconds - 301)
        #expect(await fixture.refusal(of: first.accessToken) == .revoked)
        #expect(await fixture.refusal(of: second.accessToken, at: again) == nil)
        #expect(try await fixture.count("apple_refresh_token") == 1)
        // The clocks of Apple and the server may differ by five minutes. This revocation may therefore be newer than
        // the second sign-in.
        try await take("2", revokedAtSeconds: againSeconds - 300)
        #expect(await fixture.refusal(of: second.accessToken, at: again) == .revoked)
        #expect(try await fixture.count("apple_refresh_token") == 0)
        let third = try await fixture.signInWithApple("001.a", at: again)
        try await take("3", revokedAtSeconds: nil)
        #expect(await fixture.refusal(of: third.accessToken, at: again) == .revoked)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a notice of a revoked consent ends a sign-in from before the clock was set back`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let ahead = AccountFixture.start.advanced(bySeconds: 86_400)
        let pair = try await fixture.signInWithApple("001.a", at: ahead)
        try await fixture.own.take(
            AppleServerNotification(
                kind: .consentRevoked, subject: "001.a", jti: "1",
                happenedAtSeconds: AccountFixture.start.millisecondsSinceEpoch / 1000),
            from: .at(AccountFixture.start.advanced(bySeconds: 60)))
        #expect(await fixture.refusal(of: pair.accessToken, at: ahead) == .revoked)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a late notice of a revoked consent keeps the token of a sign-in from after it that was signed out`(
        _ kind: DatabaseKind
    ) async throws {
        let fixture = try await AccountFixture(kind)
        let again = AccountFixture.start.advanced(bySeconds: 7200)
        let againSeconds = again.millisecondsSinceEpoch / 1000
        _ = try await fixture.signInWithApple("001.a", code: "code")
        let second = try await fixture.signInWithApple("001.a", code: "code", at: again)
        try await fixture.sessions.signOut(
            fixture.caller(second, at: again), refreshToken: nil, from: .at(again.advanced(bySeconds: 60)))
        for (jti, revokedAtSeconds, tokens) in [
            ("1", againSeconds - 301, 1), ("2", againSeconds - 300, 0),
        ] as [(String, Int64, Int)] {
            try await fixture.own.take(
                AppleServerNotification(
                    kind: .consentRevoked, subject: "001.a", jti: jti, happenedAtSeconds: revokedAtSeconds),
                from: .at(AccountFixture.start.advanced(bySeconds: 86_400)))
            #expect(try await fixture.count("apple_refresh_token") == tokens)
        }
        await fixture.close()
    }

    // MARK: One-time codes

    static let phone = "+4915112345678"

    @Test(arguments: DatabaseKind.allCases)
    func `a right code signs in once, and the same number is the same driver however it is written`(
        _ kind: DatabaseKind
    ) async throws {
        let fixture = try await AccountFixture(kind)
        let first = try await fixture.signIn(phone: Self.phone)
        let code = fixture.phones.last(to: Self.phone)
        #expect(code.utf8.count == 6 && code.utf8.allSatisfy { (0x30...0x39).contains($0) })
        await #expect(throws: AccountFailure.unauthorized) {
            try await fixture.signIns.signIn(phone: Self.phone, code: Secret(code), from: .at(AccountFixture.start))
        }
        try await fixture.signIns.sendCode(to: "0049 (151) 123-456.78", from: .at(AccountFixture.start))
        let again = try await fixture.signIns.signIn(
            phone: " +49 151 12345678", code: Secret(fixture.phones.last(to: Self.phone)),
            from: .at(AccountFixture.start))
        #expect(again.user == first.user)
        #expect(first.user.phone == Self.phone)
        await fixture.close()
    }

    @Test(arguments: [
        "", "15112345678", "+0151123456", "+49 151", "+4915112345678901", "+49x15112345678", "+49151１２３４５６",
    ])
    func `what is no E.164 number is refused by its name`(_ phone: String) async throws {
        let fixture = try await AccountFixture(.sqlite)
        do throws(AccountFailure) {
            try await fixture.signIns.sendCode(to: phone, from: .at(AccountFixture.start))
            Issue.record("taken for a number")
        } catch {
            guard case .invalid(let errors) = error else { throw error }
            #expect(errors.map(\.pointer) == ["/phone"])
        }
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a code ends after ten minutes, and a new one takes its place`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        try await fixture.signIns.sendCode(to: Self.phone, from: .at(AccountFixture.start))
        let old = fixture.phones.last(to: Self.phone)
        let later = AccountFixture.start.advanced(bySeconds: 600)
        await #expect(throws: AccountFailure.unauthorized) {
            try await fixture.signIns.signIn(phone: Self.phone, code: Secret(old), from: .at(later))
        }
        try await fixture.signIns.sendCode(to: Self.phone, from: .at(later))
        let new = fixture.phones.last(to: Self.phone)
        if old != new {
            await #expect(throws: AccountFailure.unauthorized) {
                try await fixture.signIns.signIn(phone: Self.phone, code: Secret(old), from: .at(later))
            }
        }
        let end = later.advanced(byMilliseconds: 599_999)
        _ = try await fixture.signIns.signIn(phone: Self.phone, code: Secret(new), from: .at(end))
        await fixture.close()
    }

    /// Many concurrent requests send wrong codes. Only five codes are checked. After that, the right code is rejected
    /// too.
    @Test(arguments: DatabaseKind.allCases)
    func `however many guesses at once are five`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        try await fixture.signIns.sendCode(to: Self.phone, from: .at(AccountFixture.start))
        let right = fixture.phones.last(to: Self.phone)
        // On PostgreSQL, concurrent transactions that change the same rows are repeated. A thousand concurrent requests
        // would take too long.
        let count = kind == .sqlite ? 1000 : 30
        let refused = await withTaskGroup(of: Bool.self) { group in
            for guess in (0..<1_001).map({ String(format: "%06d", $0) }).filter({ $0 != right }).prefix(count) {
                group.addTask {
                    let origin = RequestOrigin.at(AccountFixture.start)
                    return
                        (try? await fixture.signIns.signIn(
                            phone: Self.phone, code: Secret(guess), from: origin)) == nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(refused == count)
        let audit = try await fixture.audit()
        #expect(audit.filter { $0 == "sign_in_otp refused wrong" }.count == 5)
        #expect(audit.filter { $0 == "sign_in_otp refused too_many_guesses" }.count == count - 5)
        await #expect(throws: AccountFailure.unauthorized) {
            try await fixture.signIns.signIn(phone: Self.phone, code: Secret(right), from: .at(AccountFixture.start))
        }
        await fixture.close()
    }

    private func guess(
        _ fixture: AccountFixture, _ code: String, from address: String = "192.0.2.77",
        at now: Moment = AccountFixture.start
    ) async -> Bool {
        (try? await fixture.signIns.signIn(phone: Self.phone, code: Secret(code), from: .at(now, address: address)))
            != nil
    }

    @Test(arguments: DatabaseKind.allCases)
    func `strangers' wrong guesses, and codes that they ask for, keep nobody out who asked and types it in`(
        _ kind: DatabaseKind
    )
        async throws
    {
        let fixture = try await AccountFixture(kind)
        try await fixture.signIns.sendCode(to: Self.phone, from: .at(AccountFixture.start))
        let right = fixture.phones.last(to: Self.phone)
        // Each guess comes from a different network. The limits allow the check of only 30 guesses.
        for number in 0..<200 { #expect(await !guess(fixture, "no", from: "198.51.\(number).1")) }
        try await fixture.signIns.sendCode(
            to: Self.phone, from: .at(AccountFixture.start.advanced(bySeconds: 1), address: "198.51.100.1"))
        for _ in 0..<10 { #expect(await !guess(fixture, "no", from: "198.51.100.1")) }
        #expect(await guess(fixture, right))
        let audit = try await fixture.audit()
        // The audit contains only wrong guesses that were checked. The stranger's address had requested a code, and 5
        // of its guesses were checked. From all other addresses together, 30 guesses were checked.
        #expect(audit.filter { $0 == "sign_in_otp refused wrong" }.count == GuessRule.othersMax + GuessRule.ownMax)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a code that somebody else asked for is good for the owner too`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        try await fixture.signIns.sendCode(to: Self.phone, from: .at(AccountFixture.start))
        try await fixture.signIns.sendCode(
            to: Self.phone, from: .at(AccountFixture.start.advanced(bySeconds: 1), address: "198.51.100.1"))
        #expect(await guess(fixture, fixture.phones.last(to: Self.phone)))
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `after the clock was set back, codes and guesses of the future do not count, and no such code is valid`(
        _ kind: DatabaseKind
    )
        async throws
    {
        let fixture = try await AccountFixture(kind, limits: CodeSendLimits(perNumber: 2))
        let ahead = AccountFixture.start.advanced(bySeconds: 86_400)
        for host in 1...2 {
            try await fixture.signIns.sendCode(
                to: Self.phone, from: .at(ahead.advanced(bySeconds: host), address: "198.51.100.\(host)"))
        }
        let old = fixture.phones.last(to: Self.phone)
        for _ in 0..<GuessRule.othersInNetworkMax { #expect(await !guess(fixture, "no", at: ahead)) }
        // The clock is set back by a day, to `start`.
        let uses = try await fixture.store.codeSendUses(CodeSendLimits(), at: AccountFixture.start)
        #expect(uses.map(\.count) == [0, 0, 0])
        #expect(await !guess(fixture, old))
        #expect(try await fixture.audit().last == "sign_in_otp refused expired")
        try await fixture.signIns.sendCode(to: Self.phone, from: .at(AccountFixture.start))
        #expect(await guess(fixture, fixture.phones.last(to: Self.phone), from: "203.0.113.1"))
        await fixture.close()
    }

    /// The contract limits checked guesses to 175 a day for each phone number. This limit is for the default settings.
    @Test(arguments: DatabaseKind.allCases)
    func `within a day no more than 175 guesses of a number are looked at`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind, limits: CodeSendLimits(perAddress: 0, perNetwork: 0, total: 0))
        var now = AccountFixture.start
        for hour in 0..<24 {
            for round in 0..<7 {
                // A number gets only five codes an hour. `try?` ignores the errors of further requests.
                try? await fixture.signIns.sendCode(to: Self.phone, from: .at(now))
                for _ in 0..<6 { #expect(await !guess(fixture, "no", at: now)) }
                for stranger in 0..<6 {
                    #expect(await !guess(fixture, "no", from: "198.\(hour).\(round).\(stranger)", at: now))
                }
                now = now.advanced(bySeconds: 3600 / 7)
            }
        }
        let looked = try await fixture.audit().filter { $0 == "sign_in_otp refused wrong" }.count
        let counted = try await fixture.count("one_time_code_guess")
        #expect(counted <= 175 && counted >= 130, "\(counted) \(looked)")
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `sending again gives five guesses until 25 were wrong within a day, and then one, also over a restart`(
        _ kind: DatabaseKind
    )
        async throws
    {
        let database = try await TestDatabase(kind)
        for round in 0..<5 {
            let fixture = try await AccountFixture(in: database)
            let now = AccountFixture.start.advanced(bySeconds: 60 * round)
            try await fixture.signIns.sendCode(to: Self.phone, from: .at(now))
            await #expect(throws: AccountFailure.unauthorized) {
                try await fixture.signIns.signIn(phone: Self.phone, code: Secret("no"), from: .at(now))
            }
            await fixture.close()
        }
        let fixture = try await AccountFixture(in: database, limits: CodeSendLimits(perNumber: 0))
        for round in 5..<12 {
            let now = AccountFixture.start.advanced(bySeconds: 60 * round)
            try await fixture.signIns.sendCode(to: Self.phone, from: .at(now))
            for _ in 0..<9 { #expect(await !guess(fixture, "no", at: now)) }
        }
        // For the first five codes, one guess each was checked. For the next four codes, five guesses each were
        // checked. After these 25 wrong guesses, only one guess was checked for each code.
        #expect(try await fixture.count("one_time_code_guess") == 5 + 4 * 5 + 3)
        let now = AccountFixture.start.advanced(bySeconds: 3000)
        try await fixture.signIns.sendCode(to: Self.phone, from: .at(now))
        #expect(await guess(fixture, fixture.phones.last(to: Self.phone), at: now))
        await fixture.close()
    }

    // MARK: Sending

    @Test(arguments: DatabaseKind.allCases)
    func `codes are counted by network and site too, and by the prefix of the number`(_ kind: DatabaseKind) async throws
    {
        let fixture = try await AccountFixture(kind, limits: CodeSendLimits(perNetwork: 3, perSite: 5, perPrefix: 4))
        func send(_ phone: Int, from address: String) async throws -> Bool {
            do throws(AccountFailure) {
                try await fixture.signIns.sendCode(
                    to: "+\(phone)", from: .at(AccountFixture.start, address: address))
                return true
            } catch {
                guard case .limited = error else { throw error }
                return false
            }
        }
        // The addresses are in one /56, each in its own /64.
        for number in 0..<3 {
            #expect(try await send(4_915_110_000_000 + number * 1_000_000, from: "2001:db8:0:\(number)::1"))
        }
        #expect(try await !send(4_915_990_000_000, from: "2001:db8:0:4::1"))
        // The addresses are in one /48, each in its own /56.
        for number in 0..<2 {
            #expect(try await send(4_916_110_000_000 + number * 1_000_000, from: "2001:db8:0:\(number + 1)00::1"))
        }
        #expect(try await !send(4_916_990_000_000, from: "2001:db8:0:900::1"))
        #expect(try await send(4_917_110_000_000, from: "2001:db8:1::1"))
        // The IPv4 addresses are in one /24.
        for number in 0..<3 {
            #expect(try await send(4_918_110_000_000 + number * 1_000_000, from: "192.0.2.\(number)"))
        }
        #expect(try await !send(4_918_990_000_000, from: "192.0.2.200"))
        // The six numbers share a prefix, whose limit is four codes. For the fifth and sixth number the response is the
        // same, but no message is sent.
        let before = fixture.phones.count
        for number in 0..<6 { #expect(try await send(4_419_999_000_000 + number, from: "203.0.\(number).1")) }
        #expect(fixture.phones.count == before + 4)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `newcomers cannot use up what is kept for known numbers, and nobody can tell which is which`(
        _ kind: DatabaseKind
    )
        async throws
    {
        let fixture = try await AccountFixture(kind, limits: CodeSendLimits(perPrefix: 0, total: 10, knownPercent: 30))
        _ = try await fixture.signIn(phone: Self.phone)
        let later = AccountFixture.start.advanced(bySeconds: 3700)
        // Each request comes from its own network.
        for number in 0..<12 {
            try await fixture.signIns.sendCode(
                to: "+44\(70_000_000 + number * 1_000_000)", from: .at(later, address: "198.51.\(number).1"))
        }
        #expect(fixture.phones.count == 1 + 7)
        // The number with an account still gets codes until the total limit is used up. After that, requests for any
        // number are rejected.
        for number in 0..<3 {
            try await fixture.signIns.sendCode(to: Self.phone, from: .at(later, address: "203.0.\(number).1"))
        }
        #expect(fixture.phones.count == 1 + 10)
        for phone in [Self.phone, "+4479999999"] {
            await #expect(throws: AccountFailure.limited(retryAfterSeconds: 3600)) {
                try await fixture.signIns.sendCode(to: phone, from: .at(later, address: "203.0.113.1"))
            }
        }
        #expect(try await fixture.audit().filter { $0 == "otp_send refused held_back" }.count == 5)
        let uses = try await fixture.store.codeSendUses(CodeSendLimits(total: 10), at: later)
        #expect(uses.map(\.count) == [10, 7, 1])
        #expect(uses.map(\.isNearLimit) == [true, true, false])
        await fixture.close()
    }

    /// A driver may press "resend" too often. The driver can still sign in with the delivered code, from any address.
    @Test(arguments: DatabaseKind.allCases)
    func `a code that is held back leaves the delivered one valid until its own end`(_ kind: DatabaseKind)
        async throws
    {
        let (own, other, third) = ("192.0.2.77", "198.51.100.1", "203.0.113.1")
        for (resender, guesser) in [(own, own), (own, other), (other, own), (other, other), (other, third)] {
            let fixture = try await AccountFixture(kind, limits: CodeSendLimits(perPrefix: 1))
            try await fixture.signIns.sendCode(to: Self.phone, from: .at(AccountFixture.start, address: own))
            let code = fixture.phones.last(to: Self.phone)
            let resent = AccountFixture.start.advanced(bySeconds: 590)
            try await fixture.signIns.sendCode(to: Self.phone, from: .at(resent, address: resender))
            #expect(fixture.phones.count == 1)
            #expect(await !guess(fixture, code, from: guesser, at: AccountFixture.start.advanced(bySeconds: 600)))
            #expect(try await fixture.audit().last == "sign_in_otp refused expired")
            let now = AccountFixture.start.advanced(bySeconds: 599)
            #expect(await guess(fixture, code, from: guesser, at: now), "\(resender) \(guesser)")
            await fixture.close()
        }
    }

    /// A delivered code and a held-back code must allow equally many guesses. A difference would reveal that a phone
    /// number has no account.
    @Test(arguments: DatabaseKind.allCases)
    func `a code that is held back gives as many guesses as a delivered one, for as long`(_ kind: DatabaseKind)
        async throws
    {
        for (perPrefix, delivered) in [(0, 2), (1, 1)] {
            let fixture = try await AccountFixture(kind, limits: CodeSendLimits(perPrefix: perPrefix))
            try await fixture.signIns.sendCode(to: Self.phone, from: .at(AccountFixture.start))
            for _ in 0..<9 { #expect(await !guess(fixture, "no")) }
            let resent = AccountFixture.start.advanced(bySeconds: 590)
            try await fixture.signIns.sendCode(to: Self.phone, from: .at(resent))
            #expect(fixture.phones.count == delivered)
            // A request for a code deletes all expired codes. The codes of `Self.phone` have not expired.
            try await fixture.signIns.sendCode(
                to: "+4479999999", from: .at(resent.advanced(bySeconds: 500), address: "198.51.100.1"))
            for _ in 0..<2 { #expect(await !guess(fixture, "no", at: resent.advanced(bySeconds: 1199))) }
            #expect(try await fixture.count("one_time_code_guess WHERE is_own = 1") == 7)
            #expect(await !guess(fixture, "no", at: resent.advanced(bySeconds: 1200)))
            #expect(try await fixture.count("one_time_code_guess WHERE is_own = 0") == 1)
            await fixture.close()
        }
    }

    @Test(arguments: DatabaseKind.allCases)
    func `the alarm about codes is raised from four fifths of the newcomers' share on, and ends an hour later`(
        _ kind: DatabaseKind
    )
        async throws
    {
        let raised = Mutex<[CodeSendUse]>([])
        let fixture = try await AccountFixture(
            kind, limits: CodeSendLimits(perPrefix: 0, total: 20, knownPercent: 50),
            alarm: { use in raised.withLock { $0.append(use) } })
        func newNumbers(_ numbers: Range<Int>, at now: Moment) async throws -> [CodeSendUse] {
            for number in numbers {
                try await fixture.signIns.sendCode(
                    to: "+44\(70_000_000 + number * 1_000_000)", from: .at(now, address: "198.51.\(number).1"))
            }
            return raised.withLock { raised in
                defer { raised = [] }
                return raised
            }
        }
        #expect(try await newNumbers(0..<7, at: AccountFixture.start) == [])
        // Numbers without an account have a limit of ten codes. The alarm is raised for codes eight to ten.
        #expect(
            try await newNumbers(7..<10, at: AccountFixture.start)
                == (8...10).map { CodeSendUse(.newcomers, count: $0, max: 10) })
        // The limit is used up, so the server sends no code. Each request still raises the alarm.
        #expect(
            try await newNumbers(10..<12, at: AccountFixture.start)
                == Array(repeating: CodeSendUse(.newcomers, count: 10, max: 10), count: 2))
        #expect(fixture.phones.count == 10)
        #expect(try await newNumbers(12..<13, at: AccountFixture.start.advanced(bySeconds: 3601)) == [])
        #expect(fixture.phones.count == 11)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a number that nobody has is judged and counted like any other`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        for _ in 0..<6 {
            await #expect(throws: AccountFailure.unauthorized) {
                try await fixture.signIns.signIn(
                    phone: Self.phone, code: Secret("123456"), from: .at(AccountFixture.start))
            }
        }
        let audit = try await fixture.audit()
        #expect(audit.suffix(2) == ["sign_in_otp refused wrong", "sign_in_otp refused too_many_guesses"])
        #expect(try await fixture.count("driver") == 0)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `codes are sent within the limits of number, address and all, counted in the database`(_ kind: DatabaseKind)
        async throws
    {
        let limits = CodeSendLimits(perNumber: 2, perAddress: 4, total: 6, knownPercent: 0)
        let database = try await TestDatabase(kind)
        func send(_ phone: Int, from address: String, at seconds: Int) async throws -> Int64? {
            // The counts must be in the database. Each request therefore uses a new store.
            let fixture = try await AccountFixture(in: database, limits: limits)
            var limited: Int64?
            do throws(AccountFailure) {
                try await fixture.signIns.sendCode(
                    to: "+4915100000\(phone)",
                    from: .at(AccountFixture.start.advanced(bySeconds: seconds), address: address))
            } catch {
                guard case .limited(let retryAfter) = error else { throw error }
                limited = retryAfter
            }
            await fixture.close()
            return limited
        }
        // Requests from IPv6 addresses are counted by the address's /64.
        #expect(try await send(100, from: "2001:db8::1", at: 0) == nil)
        #expect(try await send(100, from: "2001:db8::2", at: 10) == nil)
        #expect(try await send(100, from: "192.0.2.1", at: 20) == 3580)
        #expect(try await send(101, from: "2001:db8:0:0:1::1", at: 20) == nil)
        #expect(try await send(102, from: "2001:db8:0:0:2::1", at: 30) == nil)
        #expect(try await send(103, from: "2001:db8:0:0:3::1", at: 40) == 3560)
        #expect(try await send(103, from: "2001:db8:0:1::1", at: 50) == nil)
        #expect(try await send(104, from: "192.0.2.2", at: 60) == nil)
        #expect(try await send(105, from: "192.0.2.3", at: 70) == 3530)
        #expect(try await send(105, from: "192.0.2.3", at: 3599) == 1)
        #expect(try await send(105, from: "192.0.2.3", at: 3600) == nil)
    }
}
