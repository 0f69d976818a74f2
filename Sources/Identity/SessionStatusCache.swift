// A cache of the status of sign-in sessions, with a limited number of entries. Every request with an access token uses
// it, because a revoked session or a deleted driver must be rejected at once (contract, section 6).
//
// The store has a feed: a numbered list of revocations. The status of a session is read from the store when it is first
// needed. It stays in the cache until the feed reports a change.
//
// A process applies its own revocations before it sends the response. It applies the revocations of other processes at
// the next poll.

import Caching
package import JourneyModel
import Synchronization

/// The port by which the cache reads the store.
package protocol SessionStatusStore: Sendable {
    func status(ofSession sid: String, of driver: DriverID) async throws(AccountFailure) -> SessionStatus
    /// Returns the status of the driver's tokens without `sid`.
    func status(ofTokensOf driver: DriverID) async throws(AccountFailure) -> SessionStatus

    /// Returns the revocations whose number is higher than `id`. If `id` is nil, returns no revocations, only the
    /// number of the last one. `concernsAll` is then true.
    func revocations(after id: Int64?) async throws(AccountFailure) -> RecentRevocations
}

package enum SessionStatus: Hashable, Sendable {
    case live
    /// The driver was deleted at that second. Only a token that was issued more than a minute later is accepted
    /// (`AccountRules.isErased`).
    case erased(atSeconds: Int64)
    /// The session is unknown, has ended, or belongs to another driver.
    case revoked
}

package struct RecentRevocations: Hashable, Sendable {
    /// The number of the last revocation in the feed. The next read returns the revocations after it.
    package var last: Int64
    /// The sessions that ended.
    package var sids: [String]
    /// Whether the whole cache must be cleared. True if a driver was deleted, if the feed has a gap, or if no number
    /// was passed to `revocations(after:)`.
    package var concernsAll: Bool

    package init(last: Int64, sids: [String], concernsAll: Bool) {
        self.last = last
        self.sids = sids
        self.concernsAll = concernsAll
    }
}

package final class SessionStatusCache: SignInSessions {
    private enum Key: Hashable {
        case session(String)
        case tokensOf(DriverID)

        init(_ caller: Caller) {
            self = caller.signInSession.map(Key.session) ?? .tokensOf(caller.driver)
        }

        /// Two keys are equal only if their texts have the same bytes, as in the database. `==` on String also treats
        /// canonically equivalent texts as equal. The synthesized `hash(into:)` agrees with this `==`, because texts
        /// with the same bytes have the same hash.
        static func == (one: Key, other: Key) -> Bool {
            switch (one, other) {
            case (.session(let one), .session(let other)): haveSameBytes(one, other)
            case (.tokensOf(let one), .tokensOf(let other)): one == other
            case (.session, .tokensOf), (.tokensOf, .session): false
            }
        }
    }

    private struct Known {
        /// The driver for whom the session was looked up.
        var driver: DriverID
        var status: SessionStatus
    }

    private struct State {
        var known: TwoGenerationCache<Key, Known>
        /// The number of the last applied revocation. Nil before the first read of the feed, and after a failed read.
        /// While it is nil, nothing is cached.
        var lastRevocation: Int64?
    }

    private let store: any SessionStatusStore
    private let pollMilliseconds: Int
    private let state: Mutex<State>
    /// The revocation epoch. `catchUp` increments it under the lock of `state` whenever it removes entries. Evictions
    /// to make room do not change it.
    ///
    /// If the epoch changes while a status is read from the store, the status may be older than a revocation. Such a
    /// status is not cached.
    private let epoch = Atomic<Int>(0)

    /// Creates an empty cache. The task `run` applies a revocation by another process after at most `pollMilliseconds`,
    /// plus the time to read the feed.
    package init(store: any SessionStatusStore, rememberedMax: Int = 65_536, pollMilliseconds: Int = 200) {
        self.store = store
        state = Mutex(State(known: TwoGenerationCache(generationCountMax: rememberedMax / 2)))
        self.pollMilliseconds = pollMilliseconds
    }

    package func judge(_ caller: Caller, issuedAt: Double) -> SignInVerdict {
        let key = Key(caller)
        let (known, epoch) = state.withLock { state in
            (state.known.find(key), self.epoch.load(ordering: .relaxed))
        }
        guard let known, known.driver == caller.driver else {
            return .needsLookup { [self] () async throws(TokenRefusal) in
                try await lookUp(caller, key, issuedAt: issuedAt, knownAt: epoch)
            }
        }
        return Self.refusal(known.status, issuedAt: issuedAt).map { .refused($0) } ?? .admitted
    }

    /// - Parameter epoch: the epoch before the status is read from the store.
    private func lookUp(
        _ caller: Caller, _ key: Key, issuedAt: Double, knownAt epoch: Int
    ) async throws(TokenRefusal) {
        let status: SessionStatus
        do throws(AccountFailure) {
            status =
                if let sid = caller.signInSession {
                    try await store.status(ofSession: sid, of: caller.driver)
                } else { try await store.status(ofTokensOf: caller.driver) }
        } catch {
            throw .undecided
        }
        state.withLock { state in
            guard self.epoch.load(ordering: .relaxed) == epoch, state.lastRevocation != nil else { return }
            state.known.insert(Known(driver: caller.driver, status: status), for: key)
        }
        if let refusal = Self.refusal(status, issuedAt: issuedAt) { throw refusal }
    }

    /// The current revocation epoch; never nil.
    package var revocationEpoch: Int? { epoch.load(ordering: .acquiring) }

    private static func refusal(_ status: SessionStatus, issuedAt: Double) -> TokenRefusal? {
        switch status {
        case .live: nil
        case .erased(let second): AccountRules.isErased(issuedAt: issuedAt, erasedAtSeconds: second) ? .revoked : nil
        case .revoked: .revoked
        }
    }

    /// Applies the revocations that all processes have made so far. `run` calls this method at every poll. After a
    /// revocation by this process, it is called before the response is sent.
    ///
    /// If the feed cannot be read, the cache is cleared and the epoch is incremented. Every token is then checked in
    /// the store again. While the store fails, requests get `undecided` instead of an outdated status.
    package func catchUp() async {
        let last = state.withLock { $0.lastRevocation }
        do throws(AccountFailure) {
            let revocations = try await store.revocations(after: last)
            state.withLock { state in
                // The new number may be lower than the stored one, because another read has stored a newer number
                // meanwhile, or because a failover has lost revocations.
                state.lastRevocation = revocations.last
                // `last` is nil at the first read of the feed, and at the first read after a failed one. Such a read
                // skips all earlier revocations.
                //
                // A status look-up in progress may return a status from before a skipped revocation. `forgetAll`
                // increments the epoch, so that such a status is not cached.
                if revocations.concernsAll || last == nil { return forgetAll(&state) }
                guard !revocations.sids.isEmpty else { return }
                epoch.wrappingAdd(1, ordering: .releasing)
                for sid in revocations.sids { state.known.remove(.session(sid)) }
            }
        } catch {
            state.withLock { state in
                // After a failover, the database may lack the last revocations, and give their numbers to new
                // revocations. A read from the old number would miss these new revocations.
                state.lastRevocation = nil
                forgetAll(&state)
            }
        }
    }

    /// Polls until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            await catchUp()
            try? await Task.sleep(for: .milliseconds(pollMilliseconds))
        }
    }

    var count: Int { state.withLock { $0.known.count } }

    private func forgetAll(_ state: inout State) {
        epoch.wrappingAdd(1, ordering: .releasing)
        state.known.removeAll()
    }
}
