// A cache of Apple's keys. A sign-in must not wait for Apple, and invented key ids must not cause a call to Apple each.
// So at most one fetch is in progress, and fetches for key ids missing from the set are at least a minute apart. Does
// not know HTTP; the clock is passed in.

package import JourneyModel

/// The port by which the key set is read. The implementation limits time and size, and logs failures.
package protocol AppleKeySetSource: Sendable {
    /// Returns nil when there is no response, or its status is not 200.
    func fetch() async -> FetchedKeySet?
}

package struct FetchedKeySet: Sendable {
    package var body: [UInt8]
    /// `max-age` of Cache-Control (RFC 9111, section 5.2.2.1); nil when absent.
    package var maxAgeSeconds: Int?

    package init(body: [UInt8], maxAgeSeconds: Int? = nil) {
        self.body = body
        self.maxAgeSeconds = maxAgeSeconds
    }
}

package actor AppleKeySet {
    /// The accepted range of Apple's max-age; values are clamped to it.
    static let freshSeconds = 300...86_400
    static let freshSecondsDefault = 3600
    /// How long stale keys are used while Apple is unreachable. Limited, because a leaked key that Apple withdrew is
    /// recognised only by its absence from a new set.
    static let staleSecondsMax = 7 * 86_400
    /// Minimum interval between two fetches for key ids missing from the set (contract, section 6), and between two
    /// attempts to replace a stale set.
    static let cooldownSeconds: Int64 = 60
    /// Maximum interval between attempts while there is no set: one second, then two, doubling up to this.
    static let pauseSecondsMax: Int64 = 30

    private let source: any AppleKeySetSource
    private let clock: @Sendable () -> Moment

    private var keys: [String: RSAVerificationKey] = [:]
    private var freshUntil: Moment?
    private var lastFetch: (at: Moment, isGood: Bool)?
    /// When a fetch for a key id missing from the set last ended; while it runs, when it began.
    private var lastSearch: Moment?
    private var failureCount = 0
    /// The fetch in progress, shared by all callers that need one.
    private var flight: Task<Void, Never>?

    package init(source: any AppleKeySetSource, clock: @escaping @Sendable () -> Moment) {
        self.source = source
        self.clock = clock
    }

    /// Returns the key with that id. A key in the set is returned at once, even if stale; a stale set is then refreshed
    /// in the background.
    func key(named name: String) async throws(AppleTokenRefusal) -> RSAVerificationKey {
        let now = clock()
        let hadKeys = hasKeys(at: now)
        if hadKeys, let key = keys[name] {
            refreshWhenStale(at: now)
            return key
        }
        // Refuses without a fetch if the last one was too recent. Callers that arrive during a fetch wait for its
        // result.
        if flight == nil, let seconds = secondsToWait(hasKeys: hadKeys, at: now) {
            throw refusal(hasKeys: hadKeys, retryAfterSeconds: seconds)
        }
        // Set before the wait: a caller may arrive after the fetch has ended but before the waiting callers have
        // resumed, and must not fetch again.
        if hadKeys { lastSearch = now }
        await fetchOnce()
        let after = clock()
        let hasKeys = hasKeys(at: after)
        let found = hasKeys ? keys[name] : nil
        // A first fetch that brought the key does not count as a search, so the next missing id may be searched for at
        // once.
        if hadKeys || found == nil { lastSearch = after }
        if let found { return found }
        throw refusal(
            hasKeys: hasKeys, retryAfterSeconds: secondsToWait(hasKeys: hasKeys, at: after) ?? 1)
    }

    // MARK: When

    private func hasKeys(at now: Moment) -> Bool {
        guard let freshUntil else { return false }
        return now < freshUntil.advanced(bySeconds: Self.staleSecondsMax)
    }

    /// Returns the seconds until a fetch for a missing key id is allowed; nil when allowed now. A clock that was set
    /// back must not extend the interval, so a last fetch in the future is ignored.
    private func secondsToWait(hasKeys: Bool, at now: Moment) -> Int64? {
        let since: Moment?
        let pause: Int64
        if hasKeys {
            (since, pause) = (lastSearch, Self.cooldownSeconds)
        } else {
            since = failureCount > 0 ? lastFetch?.at : nil
            pause = min(1 << Int64(min(max(failureCount - 1, 0), 6)), Self.pauseSecondsMax)
        }
        guard let since, since <= now else { return nil }
        let left = pause * 1000 - now.milliseconds(since: since)
        return left > 0 ? (left + 999) / 1000 : nil
    }

    /// Returns the refusal for a missing key id: `unknownKey` after a successful fetch, `keysUnavailable` after a
    /// failed one.
    private func refusal(hasKeys: Bool, retryAfterSeconds: Int64) -> AppleTokenRefusal {
        hasKeys && lastFetch?.isGood == true
            ? .refused(.unknownKey) : .keysUnavailable(retryAfterSeconds: retryAfterSeconds)
    }

    private func refreshWhenStale(at now: Moment) {
        guard flight == nil, let freshUntil, now >= freshUntil else { return }
        if let lastFetch, !lastFetch.isGood, lastFetch.at <= now,
            now.milliseconds(since: lastFetch.at) < Self.cooldownSeconds * 1000
        {
            return
        }
        startFetch()
    }

    // MARK: Fetching

    private func fetchOnce() async {
        if flight == nil { startFetch() }
        await flight?.value
    }

    /// Starts an unstructured task: it serves all waiting callers, and must not be cancelled with one of them.
    private func startFetch() {
        flight = Task { await self.fetch() }
    }

    private func fetch() async {
        let fetched = await source.fetch()
        let now = clock()
        flight = nil
        guard let fetched, let keys = AppleKeys.parse(fetched.body) else {
            failureCount += 1
            lastFetch = (now, false)
            return
        }
        self.keys = keys
        let seconds = fetched.maxAgeSeconds ?? Self.freshSecondsDefault
        freshUntil = now.advanced(
            bySeconds: min(max(seconds, Self.freshSeconds.lowerBound), Self.freshSeconds.upperBound))
        failureCount = 0
        lastFetch = (now, true)
    }
}
