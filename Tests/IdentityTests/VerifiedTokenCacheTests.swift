// Tests that caching verified tokens does not change which requests are admitted. Expiry is checked on a cache hit, and
// rejections are not cached. The cache is bounded, and tokens in use stay in it.

import JourneyModel
import Testing

@testable import Identity

@Suite struct VerifiedTokenCacheTests {
    @Test func aRememberedTokenExpires() async throws {
        let verifier = await verifier(try hmacKey())
        let token = crafted(payload: try payload(["exp": now + 10]))
        #expect(await refusal(verifier, token, at: now) == nil)
        #expect(await refusal(verifier, token, at: now + 9) == nil)
        #expect(await refusal(verifier, token, at: now + 10) == .expired)
        #expect(await refusal(verifier, token, at: now + 11) == .expired)
    }

    @Test func aRefusedTokenIsJudgedAgain() async throws {
        let verifier = await verifier(try hmacKey())
        let token = crafted(payload: try payload(["iat": now + 100]))
        #expect(await refusal(verifier, token, at: now) == .notYetValid)
        #expect(await refusal(verifier, token, at: now + 100) == nil)
    }

    @Test func twoTokensOfOneDriverAreTwoEntries() async throws {
        let verifier = await verifier(try hmacKey())
        let short = crafted(payload: try payload(["exp": now + 10]))
        let long = crafted(payload: try payload(["exp": now + 1000]))
        #expect(await refusal(verifier, short) == nil)
        #expect(await refusal(verifier, long) == nil)
        #expect(await refusal(verifier, short, at: now + 500) == .expired)
        #expect(await refusal(verifier, long, at: now + 500) == nil)
    }

    @Test func `what was admitted at once is asked about again when something ended, and not before`() async throws {
        let sessions = AdmittedSessions()
        let verifier = await verifier(try hmacKey(), sessions: sessions)
        let token = crafted(payload: try payload(["sid": "s-1", "exp": now + 10]))
        #expect(await refusal(verifier, token) == nil)
        for _ in 0..<3 { #expect(fromMemory(verifier, token) == .success(sessions.caller)) }
        #expect(sessions.asked == 1)
        sessions.somethingEnds()
        for _ in 0..<3 { #expect(fromMemory(verifier, token) == .success(sessions.caller)) }
        #expect(sessions.asked == 2)
        #expect(fromMemory(verifier, token, at: now + 10) == .failure(.expired))
        #expect(fromMemory(verifier, token) == nil)
    }

    @Test func `a session that ends while it is asked about is asked about again`() async throws {
        let sessions = AdmittedSessions()
        let verifier = await verifier(try hmacKey(), sessions: sessions)
        let token = crafted(payload: try payload(["sid": "s-1"]))
        #expect(await refusal(verifier, token) == nil)
        // `somethingEnds` changes the revocation epoch. With an unchanged epoch, the cache would admit the token
        // without asking `sessions`.
        sessions.somethingEnds()
        sessions.endsWhileAsked()
        #expect(fromMemory(verifier, token) == .success(sessions.caller))
        for _ in 0..<3 { #expect(fromMemory(verifier, token) == .failure(.revoked)) }
    }

    @Test func `a session that ends during the first look-up is asked about again`() async throws {
        let sessions = AdmittedSessions()
        let verifier = await verifier(try hmacKey(), sessions: sessions)
        let token = crafted(payload: try payload(["sid": "s-1"]))
        sessions.endsWhileAsked()
        #expect(await refusal(verifier, token) == nil)
        for _ in 0..<3 { #expect(fromMemory(verifier, token) == .failure(.revoked)) }
    }

    @Test func theMemoryIsBoundedAndKeepsWhatIsUsed() {
        let memory = VerifiedTokenCache(countMax: 100)
        let favourite = TokenDigest(of: "favourite")
        let caller = Caller(driver: DriverID("d"))
        memory.remember(favourite, VerifiedToken(caller: caller, issuedAt: 0, expiry: 1))
        for index in 0..<10_000 {
            memory.remember(TokenDigest(of: "\(index)"), VerifiedToken(caller: caller, issuedAt: 0, expiry: 1))
            #expect(memory.count <= 100)
            if index.isMultiple(of: 20) { #expect(memory.find(favourite) != nil, "after \(index)") }
        }
        #expect(memory.find(TokenDigest(of: "0")) == nil)
        #expect(memory.find(TokenDigest(of: "9999")) != nil)
    }

    @Test func rememberingAgainOrForgettingLeavesOneOrNone() {
        let memory = VerifiedTokenCache(countMax: 4)
        let token = VerifiedToken(caller: Caller(driver: DriverID("d")), issuedAt: 0, expiry: 1)
        let digest = TokenDigest(of: "a")
        for _ in 0..<10 { memory.remember(digest, token) }
        #expect(memory.count == 1)
        memory.remember(TokenDigest(of: "b"), token)
        memory.remember(TokenDigest(of: "c"), token)
        memory.forget(digest)
        #expect(memory.find(digest) == nil)
    }
}
