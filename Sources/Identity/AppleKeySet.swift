// A cache of Apple's keys, so that a sign-in normally does not wait for Apple. At most one fetch is in progress at a
// time.
//
// A client can invent any number of key ids. Fetches because of a key id that is missing from the set are therefore at
// least a minute apart.

package import JourneyModel

/// The port by which the key set is read. The implementation limits the time and size of a fetch, and logs failures.
package protocol AppleKeySetSource: Sendable {
    /// Fetches the key set. Returns nil if there is no response, or if its status is not 200.
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
    /// The accepted range of Apple's `max-age`, in seconds. A value outside the range is replaced by the nearest value
    /// in the range.
    static let freshSeconds = 300...86_400
    static let freshSecondsDefault = 3600
    /// The maximum time in seconds for which stale keys are used while Apple is unreachable. It is limited because
    /// Apple may remove a leaked key, which a server notices only when it fetches a new set.
    static let staleSecondsMax = 7 * 86_400
    /// Minimum interval between two fetches for key ids missing from the set (contract, section 6), and between two
    /// attempts to replace a stale set.
    static let cooldownSeconds: Int64 = 60
    /// Maximum interval between attempts to fetch the key set while no keys are known. The first interval is one
    /// second, and each further interval is twice as long, up to this maximum.
    static let pauseSecondsMax: Int64 = 30

    private let source: any AppleKeySetSource
    private let clock: @Sendable () -> Moment

    private var keys: [String: RSAVerificationKey] = [:]
    private var freshUntil: Moment?
    private var lastFetch: (at: Moment, isGood: Bool)?
    /// When the last search ended. A search is a fetch for a key id that is missing from the set. While a search is in
    /// progress, this is the time when it began.
    private var lastSearch: Moment?
    private var failureCount = 0
    /// The fetch in progress, shared by all callers that need one.
    private var flight: Task<Void, Never>?

    package init(source: any AppleKeySetSource, clock: @escaping @Sendable () -> Moment) {
        self.source = source
        self.clock = clock
    }

    /// Returns the key with that id. A key in the set is returned at once. If the set is stale, it is also refreshed in
    /// the background.
    func key(named name: String) async throws(AppleTokenRefusal) -> RSAVerificationKey {
        let now = clock()
        let hadKeys = hasKeys(at: now)
        if hadKeys, let key = keys[name] {
            refreshWhenStale(at: now)
            return key
        }
        // If a fetch is in progress, wait for its result. If no fetch is in progress and the last fetch was too recent,
        // refuse the token without a new fetch.
        if flight == nil, let seconds = secondsToWait(hasKeys: hadKeys, at: now) {
            throw refusal(hasKeys: hadKeys, retryAfterSeconds: seconds)
        }
        // Set `lastSearch` before the wait, and not only after it. A caller that arrives after the fetch has ended, but
        // before this caller has resumed, would otherwise fetch again.
        if hadKeys { lastSearch = now }
        await fetchOnce()
        let after = clock()
        let hasKeys = hasKeys(at: after)
        let found = hasKeys ? keys[name] : nil
        // If there were no keys before, and this fetch found the key, the fetch was no search for a missing key id.
        // Another search may then follow at once. In all other cases, the pause before the next search begins now.
        if hadKeys || found == nil { lastSearch = after }
        if let found { return found }
        throw refusal(
            hasKeys: hasKeys, retryAfterSeconds: secondsToWait(hasKeys: hasKeys, at: after) ?? 1)
    }

    // MARK: Intervals between fetches

    private func hasKeys(at now: Moment) -> Bool {
        guard let freshUntil else { return false }
        return now < freshUntil.advanced(bySeconds: Self.staleSecondsMax)
    }

    /// Returns the seconds until a fetch for a missing key id is allowed, or nil if it is allowed now.
    ///
    /// If the time of the last fetch or search is in the future, the clock was set back after it. This time is then
    /// ignored, so that nobody waits until the clock reaches it again.
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

    /// Returns the refusal for a missing key id: `unknownKey` if the last fetch succeeded and keys are known, otherwise
    /// `keysUnavailable`.
    private func refusal(hasKeys: Bool, retryAfterSeconds: Int64) -> AppleTokenRefusal {
        hasKeys && lastFetch?.isGood == true
            ? .refused(.unknownKey) : .keysUnavailable(retryAfterSeconds: retryAfterSeconds)
    }

    private func refreshWhenStale(at now: Moment) {
        // A fetch at or before `now` sets `freshUntil` to `latest` at most. If `freshUntil` is later than that, the
        // clock was set back since the fetch, and the set may be older than it seems.
        let latest = now.advanced(bySeconds: Self.freshSeconds.upperBound)
        guard flight == nil, let freshUntil, now >= freshUntil || freshUntil > latest else { return }
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

    /// Starts the fetch as an unstructured task. All waiting callers share it, so the cancellation of one caller must
    /// not cancel it.
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
