// A cache of Apple's keys. A sign-in must not wait for Apple, and made-up key ids must not have the server
// ask Apple each time: so there is one fetch at a time, and one a minute for names that are not in the set. It refuses to
// know HTTP; the time is told by a clock that is passed in.

package import JourneyModel

/// The port by which the key set is read. The implementation bounds time and size and logs what went wrong.
package protocol AppleKeySetSource: Sendable {
    /// Nil when there is no answer, or none with status 200.
    func fetch() async -> FetchedKeySet?
}

package struct FetchedKeySet: Sendable {
    package var body: [UInt8]
    /// `max-age` of Cache-Control (RFC 9111, section 5.2.2.1); nil when it does not say.
    package var maxAgeSeconds: Int?

    package init(body: [UInt8], maxAgeSeconds: Int? = nil) {
        self.body = body
        self.maxAgeSeconds = maxAgeSeconds
    }
}

package actor AppleKeySet {
    /// Whatever Apple's answer says about its age, it is believed within this.
    static let freshSeconds = 300...86_400
    static let freshSecondsDefault = 3600
    /// While Apple cannot be asked, its keys are believed this long after they went stale. Not for ever: a key that was
    /// withdrawn because it leaked is known by its absence alone.
    static let staleSecondsMax = 7 * 86_400
    /// Between two fetches for names that the set does not have (contract, section 6), and between two tries to replace
    /// a stale set.
    static let cooldownSeconds: Int64 = 60
    /// Without any set everybody waits: tried again after one second, then two, up to this.
    static let pauseSecondsMax: Int64 = 30

    private let source: any AppleKeySetSource
    private let clock: @Sendable () -> Moment

    private var keys: [String: RSAVerificationKey] = [:]
    private var freshUntil: Moment?
    private var lastFetch: (at: Moment, isGood: Bool)?
    /// When a fetch that was waited for by a name unknown before it ended.
    private var lastSearch: Moment?
    private var failureCount = 0
    /// The fetch under way, which all wait for who need one.
    private var flight: Task<Void, Never>?

    package init(source: any AppleKeySetSource, clock: @escaping @Sendable () -> Moment) {
        self.source = source
        self.clock = clock
    }

    /// The key of that name. A known one is answered at once, also when it is stale: the set is read again beside it.
    func key(named name: String) async throws(AppleTokenRefusal) -> RSAVerificationKey {
        let now = clock()
        let hadKeys = hasKeys(at: now)
        if hadKeys, let key = keys[name] {
            refreshWhenStale(at: now)
            return key
        }
        // Callers that come while a fetch is under way may wait for it.
        if flight == nil, let seconds = secondsToWait(hasKeys: hadKeys, at: now) {
            throw refusal(hasKeys: hadKeys, retryAfterSeconds: seconds)
        }
        // Before the wait: who comes when the fetch has ended, and those who waited have not gone on yet, must not
        // search again.
        if hadKeys { lastSearch = now }
        await fetchOnce()
        let after = clock()
        let hasKeys = hasKeys(at: after)
        let found = hasKeys ? keys[name] : nil
        // A first fetch that brought the key was no search: the next name may be searched for at once.
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

    /// Until a fetch for a name that is not there is allowed; nil when it is. A clock that was set back must not stretch
    /// the pause: what lies in the future is over.
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

    /// A name that a good fetch did not bring is unknown. After a fetch that failed nobody can say.
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

    /// A task of its own: it serves everybody who waits, and ends with none of them.
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
