// A cache of Apple's keys. A sign-in must not wait for Apple, and invented key ids must not make the server call
// Apple each time: so there is one fetch at a time, and one per minute for key ids that are not in the set. Does
// not know HTTP; the clock is passed in.

package import JourneyModel

/// The port by which the key set is read. The implementation bounds time and size and logs failures.
package protocol AppleKeySetSource: Sendable {
    /// Nil when there is no response, or none with status 200.
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
    /// While Apple is unreachable, its keys are used for this long after they went stale. Not forever: a key that
    /// was withdrawn because it leaked is recognised only by its absence.
    static let staleSecondsMax = 7 * 86_400
    /// Minimum interval between two fetches for key ids that the set does not have (contract, section 6), and
    /// between two attempts to replace a stale set.
    static let cooldownSeconds: Int64 = 60
    /// Without any set all callers wait: retried after one second, then two, up to this.
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

    /// The key of that id. A known one is returned at once, even if stale: the set is then refreshed in the
    /// background.
    func key(named name: String) async throws(AppleTokenRefusal) -> RSAVerificationKey {
        let now = clock()
        let hadKeys = hasKeys(at: now)
        if hadKeys, let key = keys[name] {
            refreshWhenStale(at: now)
            return key
        }
        // Callers that arrive during a fetch may wait for it.
        if flight == nil, let seconds = secondsToWait(hasKeys: hadKeys, at: now) {
            throw refusal(hasKeys: hadKeys, retryAfterSeconds: seconds)
        }
        // Set before the wait: a caller that arrives after the fetch has ended, and before its waiters have
        // resumed, must not fetch again.
        if hadKeys { lastSearch = now }
        await fetchOnce()
        let after = clock()
        let hasKeys = hasKeys(at: after)
        let found = hasKeys ? keys[name] : nil
        // A first fetch that brought the key was not a search: the next unknown id may be searched for at once.
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

    /// Seconds until a fetch for a missing key id is allowed; nil when it is now. A clock that was set back must
    /// not extend the pause: a time in the future counts as past.
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

    /// A key id that a successful fetch did not bring is unknown. After a failed fetch it is undecided.
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

    /// An unstructured task: it serves all waiters, and is not cancelled with any of them.
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
