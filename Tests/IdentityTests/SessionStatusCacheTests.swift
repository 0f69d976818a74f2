// Tests of the cache of session statuses, with a scripted store. After a revocation, the cache never uses an old
// status, even if the store was read during the revocation.

import JourneyModel
import Synchronization
import Testing

@testable import Identity

struct SessionStatusCacheTests {
    private let caller = Caller(driver: DriverID("d"), signInSession: "s-1")

    private func refusal(_ memory: SessionStatusCache, _ caller: Caller, issuedAt: Double = 100) async -> TokenRefusal?
    {
        do throws(TokenRefusal) {
            try await memory.admit(caller, issuedAt: issuedAt)
            return nil
        } catch {
            return error
        }
    }

    private func fromMemory(_ memory: SessionStatusCache, _ caller: Caller) -> Result<Bool, TokenRefusal>? {
        switch memory.judge(caller, issuedAt: 100) {
        case .admitted: .success(true)
        case .refused(let refusal): .failure(refusal)
        case .needsLookup: nil
        }
    }

    @Test func `a session is asked about once`() async {
        let store = ScriptedSessionStatusStore(live: ["s-1"])
        let memory = SessionStatusCache(store: store)
        await memory.catchUp()
        for _ in 0..<10 { #expect(await refusal(memory, caller) == nil) }
        for _ in 0..<10 {
            #expect(await refusal(memory, Caller(driver: DriverID("d"), signInSession: "s-9")) == .revoked)
        }
        #expect(store.asked == 2)
    }

    @Test func `at once it says what it remembers, and never what ended`() async throws {
        let store = ScriptedSessionStatusStore(live: ["s-1"])
        let memory = SessionStatusCache(store: store)
        await memory.catchUp()
        #expect(fromMemory(memory, caller) == nil)
        #expect(await refusal(memory, caller) == nil)
        #expect(fromMemory(memory, caller) == .success(true))
        #expect(fromMemory(memory, Caller(driver: DriverID("other"), signInSession: "s-1")) == nil)
        store.end("s-1")
        await memory.catchUp()
        #expect(fromMemory(memory, caller) == nil)
        #expect(await refusal(memory, caller) == .revoked)
        #expect(fromMemory(memory, caller) == .failure(.revoked))
        #expect(store.asked == 2)
    }

    @Test func `what ended is refused as soon as the feed was read, by whomever it was ended`() async {
        let store = ScriptedSessionStatusStore(live: ["s-1", "s-2"])
        let memory = SessionStatusCache(store: store)
        await memory.catchUp()
        #expect(await refusal(memory, caller) == nil)
        #expect(await refusal(memory, Caller(driver: DriverID("d"), signInSession: "s-2")) == nil)
        store.end("s-1")
        await memory.catchUp()
        #expect(await refusal(memory, caller) == .revoked)
        #expect(await refusal(memory, Caller(driver: DriverID("d"), signInSession: "s-2")) == nil)
        #expect(store.asked == 3)
    }

    /// The session ends while the store reads its status. The cache learns of the end before the store returns the old
    /// status.
    @Test func `an answer from before a revocation is not remembered`() async {
        let store = ScriptedSessionStatusStore(live: ["s-1"])
        let memory = SessionStatusCache(store: store)
        await memory.catchUp()
        store.beforeAnswering {
            store.end("s-1")
            await memory.catchUp()
        }
        // This request began before the session ended, so it may still be admitted.
        #expect(await refusal(memory, caller) == nil)
        #expect(await refusal(memory, caller) == .revoked)
        #expect(memory.count == 1)
    }

    @Test func `an answer from before the feed was first read is not remembered either`() async {
        let store = ScriptedSessionStatusStore(live: ["s-1"])
        let memory = SessionStatusCache(store: store)
        store.beforeAnswering {
            store.end("s-1")
            await memory.catchUp()
        }
        #expect(await refusal(memory, caller) == nil)
        #expect(await refusal(memory, caller) == .revoked)
        let unread = SessionStatusCache(store: ScriptedSessionStatusStore(live: ["s-1"]))
        #expect(await refusal(unread, caller) == nil)
        #expect(unread.count == 0)
    }

    @Test func `the count of revocationEpoch goes up with all that is forgotten, and with nothing else`() async {
        let store = ScriptedSessionStatusStore(live: ["s-1", "s-2"])
        let memory = SessionStatusCache(store: store)
        await memory.catchUp()
        var known = memory.revocationEpoch
        func hasGoneUp() -> Bool {
            defer { known = memory.revocationEpoch }
            return memory.revocationEpoch != known
        }
        #expect(await refusal(memory, caller) == nil)
        await memory.catchUp()
        #expect(!hasGoneUp())
        store.end("s-2")
        await memory.catchUp()
        #expect(hasGoneUp())
        store.erase(DriverID("external"), atSeconds: 100)
        await memory.catchUp()
        #expect(hasGoneUp())
        store.isReadable = false
        await memory.catchUp()
        #expect(hasGoneUp())
    }

    @Test func `a session of another driver is refused, also when it is remembered`() async {
        let memory = SessionStatusCache(store: ScriptedSessionStatusStore(live: ["s-1"]))
        await memory.catchUp()
        #expect(await refusal(memory, caller) == nil)
        #expect(await refusal(memory, Caller(driver: DriverID("other"), signInSession: "s-1")) == .revoked)
        #expect(await refusal(memory, caller) == nil)
    }

    /// The two ids spell é in two ways. Swift treats them as equal Strings, but the database has a row for each id.
    @Test func `drivers and sessions whose ids differ only in their bytes are told apart`() async {
        let (composed, decomposed) = ("jos\u{E9}", "jose\u{301}")
        let store = ScriptedSessionStatusStore(live: [composed])
        let memory = SessionStatusCache(store: store)
        store.erase(DriverID(composed), atSeconds: 100)
        await memory.catchUp()
        for _ in 0..<2 {
            #expect(await refusal(memory, Caller(driver: DriverID(composed))) == .revoked)
            #expect(await refusal(memory, Caller(driver: DriverID(decomposed))) == nil)
            #expect(await refusal(memory, Caller(driver: DriverID("d"), signInSession: composed)) == nil)
            #expect(await refusal(memory, Caller(driver: DriverID("d"), signInSession: decomposed)) == .revoked)
        }
        #expect(store.asked == 4)
    }

    @Test func `tokens without a session are good from a clock's lead after the deletion on`() async {
        let store = ScriptedSessionStatusStore(live: [])
        let memory = SessionStatusCache(store: store)
        await memory.catchUp()
        let external = Caller(driver: DriverID("external"))
        #expect(await refusal(memory, external, issuedAt: 100) == nil)
        store.erase(external.driver, atSeconds: 100)
        await memory.catchUp()
        // Another issuer's clock may be up to 60 s ahead. A token from before the deletion may therefore have a date up
        // to 60 s after the deletion. Such dates are rejected.
        for issuedAt in [0, 99.5, 100, 100.999, 158, 160, 160.999] {
            #expect(await refusal(memory, external, issuedAt: issuedAt) == .revoked, "\(issuedAt)")
        }
        #expect(await refusal(memory, external, issuedAt: 161) == nil)
        #expect(store.asked == 2)
    }

    @Test func `a store that cannot be read decides nothing, and nothing old is believed meanwhile`() async {
        let store = ScriptedSessionStatusStore(live: ["s-1"])
        let memory = SessionStatusCache(store: store)
        await memory.catchUp()
        #expect(await refusal(memory, caller) == nil)
        store.isReadable = false
        #expect(await refusal(memory, caller) == nil)
        await memory.catchUp()
        #expect(await refusal(memory, caller) == .undecided)
        store.isReadable = true
        #expect(await refusal(memory, caller) == nil)
    }

    @Test func `after the feed has lost a revocation, the next one is applied`() async {
        let store = ScriptedSessionStatusStore(live: ["s-1", "s-2"])
        let memory = SessionStatusCache(store: store)
        await memory.catchUp()
        store.end("s-2")
        await memory.catchUp()
        store.loseLastRevocation()
        await memory.catchUp()
        #expect(await refusal(memory, caller) == nil)
        store.end("s-1")
        await memory.catchUp()
        #expect(await refusal(memory, caller) == .revoked)
    }

    @Test func `after an outage, a revocation with the number of a lost one is applied`() async {
        let store = ScriptedSessionStatusStore(live: ["s-1", "s-2"])
        let memory = SessionStatusCache(store: store)
        await memory.catchUp()
        store.end("s-2")
        await memory.catchUp()
        store.isReadable = false
        await memory.catchUp()
        store.loseLastRevocation()
        store.isReadable = true
        #expect(await refusal(memory, caller) == nil)
        store.end("s-1")
        await memory.catchUp()
        #expect(await refusal(memory, caller) == .revoked)
    }

    @Test func `it is bounded, and keeps what is used`() async {
        let store = ScriptedSessionStatusStore(live: Set((0..<1000).map { "s-\($0)" }))
        let memory = SessionStatusCache(store: store, rememberedMax: 100)
        await memory.catchUp()
        for number in 0..<1000 {
            #expect(await refusal(memory, Caller(driver: DriverID("d"), signInSession: "s-\(number)")) == nil)
            #expect(await refusal(memory, Caller(driver: DriverID("d"), signInSession: "s-0")) == nil)
            #expect(memory.count <= 101)
        }
        #expect(store.asked == 1000)
    }

    /// In each of 200 rounds, revokes a session while other tasks use it. After `catchUp` has returned, no token of the
    /// session is admitted.
    @Test func `nobody is admitted after whoever revoked was answered`() async {
        for round in 0..<200 {
            let store = ScriptedSessionStatusStore(live: ["s-1"])
            let memory = SessionStatusCache(store: store)
            await memory.catchUp()
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask { for _ in 0..<20 { _ = await refusal(memory, caller) } }
                }
                group.addTask {
                    store.end("s-1")
                    await memory.catchUp()
                    #expect(await refusal(memory, caller) == .revoked, "round \(round)")
                }
            }
            #expect(await refusal(memory, caller) == .revoked, "round \(round)")
        }
    }
}

/// A session store in memory. The closure passed to `beforeAnswering` runs once: during the next read of a status,
/// after the store has determined the status.
final class ScriptedSessionStatusStore: SessionStatusStore {
    private struct State {
        /// The live sessions. Their ids are stored as bytes, because a Set of Strings treats canonically equivalent ids
        /// as equal.
        var live: Set<[UInt8]>
        var erased: [DriverID: Int64] = [:]
        /// The ids of the ended sessions, oldest first. Nil stands for a deleted driver.
        var feed: [String?] = []
        var asked = 0
        var isReadable = true
        var meanwhile: (@Sendable () async -> Void)?
    }

    private let state: Mutex<State>

    init(live: Set<String>) { state = Mutex(State(live: Set(live.map { Array($0.utf8) }))) }

    var asked: Int { state.withLock { $0.asked } }
    var isReadable: Bool {
        get { state.withLock { $0.isReadable } }
        set { state.withLock { $0.isReadable = newValue } }
    }

    func beforeAnswering(_ meanwhile: @escaping @Sendable () async -> Void) {
        state.withLock { $0.meanwhile = meanwhile }
    }

    func end(_ sid: String) {
        state.withLock { state in
            state.live.remove(Array(sid.utf8))
            state.feed.append(sid)
        }
    }

    func loseLastRevocation() {
        state.withLock { _ = $0.feed.popLast() }
    }

    func erase(_ driver: DriverID, atSeconds second: Int64) {
        state.withLock { state in
            state.erased[driver] = second
            state.feed.append(nil)
        }
    }

    func status(ofSession sid: String, of driver: DriverID) async throws(AccountFailure) -> SessionStatus {
        try await answer { $0.live.contains(Array(sid.utf8)) && driver == DriverID("d") ? .live : .revoked }
    }

    func status(ofTokensOf driver: DriverID) async throws(AccountFailure) -> SessionStatus {
        try await answer { state in state.erased[driver].map { .erased(atSeconds: $0) } ?? .live }
    }

    private func answer(
        _ status: @Sendable (State) -> SessionStatus
    ) async throws(AccountFailure) -> SessionStatus {
        let (isReadable, status, meanwhile) = state.withLock { state in
            state.asked += 1
            defer { state.meanwhile = nil }
            return (state.isReadable, status(state), state.meanwhile)
        }
        await meanwhile?()
        guard isReadable else { throw .unavailable("scripted") }
        return status
    }

    func revocations(after id: Int64?) async throws(AccountFailure) -> RecentRevocations {
        let (isReadable, feed) = state.withLock { ($0.isReadable, $0.feed) }
        guard isReadable else { throw .unavailable("scripted") }
        let news = feed.dropFirst(Int(id ?? Int64(feed.count)))
        let concernsAll = news.contains(nil) || id.map { $0 > Int64(feed.count) } ?? false
        return RecentRevocations(last: Int64(feed.count), sids: news.compactMap { $0 }, concernsAll: concernsAll)
    }
}
