// A cache of Apple's keys, so that a sign-in normally does not wait for Apple. At most one fetch is in progress at a
// time.
//
// A client can invent any number of key ids. All unknown key ids together therefore cause at most one fetch a minute.

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
    /// The range to which Apple's `max-age`, in seconds, is limited.
    static let freshSeconds = 300...86_400
    static let freshSecondsDefault = 3600
    /// How many seconds stale keys are used while Apple is unreachable. The time is limited because Apple may remove a
    /// leaked key. A server notices the removal only when it fetches a new set.
    static let staleSecondsMax = 7 * 86_400
    /// Minimum interval, in seconds, between two fetches for unknown key ids (contract, section 6). Also the minimum
    /// interval between two attempts to replace a stale set.
    static let cooldownSeconds: Int64 = 60
    /// Maximum interval, in seconds, between two fetches while no keys are known. The interval begins at one second,
    /// and doubles after each failure.
    static let pauseSecondsMax: Int64 = 30

    private let source: any AppleKeySetSource
    private let clock: @Sendable () -> Moment

    private var keys: [String: RSAVerificationKey] = [:]
    private var freshUntil: Moment?
    private var lastFetch: (at: Moment, isGood: Bool)?
    /// The time when the last search ended or, while a search is in progress, when it began. A search is a fetch for a
    /// key id that is missing from the set.
    private var lastSearch: Moment?
    private var failureCount = 0
    /// The fetch in progress, shared by all callers that need one.
    private var flight: Task<Void, Never>?

    package init(source: any AppleKeySetSource, clock: @escaping @Sendable () -> Moment) {
        self.source = source
        self.clock = clock
    }

    /// Returns the key with the id `name`. If the set contains the key, returns it at once, and begins a fetch in the
    /// background if the set is stale. Otherwise waits for a fetch, or throws if it is too early for one.
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
        // Set `lastSearch` before the wait too. Another caller may arrive after the fetch has ended, but before this
        // caller has resumed. Without this assignment, that caller would start a new fetch.
        if hadKeys { lastSearch = now }
        await fetchOnce()
        let after = clock()
        let hasKeys = hasKeys(at: after)
        let found = hasKeys ? keys[name] : nil
        // The pause before the next search begins now, except in one case: no keys were known before this fetch, and
        // the fetch has found the key. Such a fetch was not a search, and a search may begin at once.
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
    /// If the last fetch or search has a time in the future, the clock was set back. The time is ignored, so that
    /// nobody waits until the clock reaches it.
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

    private func refusal(hasKeys: Bool, retryAfterSeconds: Int64) -> AppleTokenRefusal {
        hasKeys && lastFetch?.isGood == true
            ? .refused(.unknownKey) : .keysUnavailable(retryAfterSeconds: retryAfterSeconds)
    }

    private func refreshWhenStale(at now: Moment) {
        // A fetch up to `now` sets `freshUntil` to at most `latest`. If `freshUntil` is later than `latest`, the clock
        // was set back. The set may then be older than it seems.
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

    /// The fetch is an unstructured task, because all waiting callers share it. The cancellation of one caller must not
    /// cancel it.
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
