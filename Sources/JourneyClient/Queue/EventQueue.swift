// The durable queue of unsent events. The queue decides which events to send and when, and the app sends the requests.
// The queue has no clock, timer, network access or source of random numbers.
//
// The server folds events in the order in which they happened, whatever their order of arrival. The queue nevertheless
// sends events in the order in which they were enqueued. The server's state then follows the phone's state step by
// step.

public import JourneyModel

/// One driver's unsent events. Each driver needs a separate queue and journal, because the server assigns an event to
/// the driver in the access token.
public struct EventQueue<Journal: EventJournal> {
    private struct Entry {
        var event: QueuedEvent
        /// Number of attempts with this event that got `EventReply.serverError`. It is set to 1 when the event is moved
        /// to the end of the queue. An event whose number is not 0 is sent alone.
        var serverErrors = 0
        /// Whether the event must be sent in a request of its own, because a batch that contained it was rejected as a
        /// whole.
        var isSentAlone = false
    }

    private enum Credential {
        case accepted
        /// The token was rejected, and a new one was requested.
        case awaitingRefresh
        /// There is a new token. `firstUsedAt` is the time of the first attempt with it, or nil before that attempt.
        case refreshed(firstUsedAt: Moment?)
        case awaitingSignIn
    }

    private var journal: Journal
    private var entries: [Entry]
    private var credential = Credential.accepted
    private var attempt: Attempt?
    private var attemptNumber = 0
    /// Number of consecutive failed attempts. An attempt failed if one of its events got `EventReply.again` or
    /// `serverError`.
    private var failures = 0
    private var notBefore: Moment?
    /// The length of the wait that ends at `notBefore`.
    private var waitMilliseconds: Int64 = 0

    public let driver: DriverID
    private let source: String

    /// The maximum number of events in the queue. A drive has about ten events. The queue can therefore hold the events
    /// of about a hundred drives, which is enough for weeks without a network.
    public static var eventsMax: Int { 1000 }
    /// The maximum number of events in one batch. It is the smaller of the server's default limits per minute: 60
    /// session events and 30 pre-session events (contract, section 4). In a larger batch, the events beyond the limit
    /// would get 429.
    public static var batchEventsMax: Int { 30 }
    /// After this number of attempts with `EventReply.serverError` (`Entry.serverErrors`), an event is moved to the end
    /// of the queue. There it does not block other events.
    static var serverErrorsMax: Int { 5 }
    /// If the server rejects a new token within this time after its first use, the token was never valid. In that case,
    /// the driver must sign in. A token that is rejected later may have expired, so the queue requests another one.
    ///
    /// This time is long enough for a few attempts without a response. It is shorter than the lifetime of an access
    /// token (an hour by default).
    static var newTokenMilliseconds: Int64 { 300_000 }

    /// - Parameters:
    ///   - journal: the events stored in it become the first events of the queue.
    ///   - source: the value of `source` on the wire, such as `ios_native`.
    public init(driver: DriverID, journal: Journal, source: String = "ios_native") throws(JournalError) {
        var journal = journal
        entries = try journal.load().map { Entry(event: $0) }
        self.journal = journal
        self.driver = driver
        self.source = source
    }

    /// Number of events that the server has not acknowledged.
    public var count: Int { entries.count }

    /// The queued events, in the order of sending.
    public var events: [QueuedEvent] { entries.map(\.event) }

    // MARK: Enqueueing

    /// Makes the final body of the event and stores the event. After this method has returned, the event survives a
    /// crash.
    ///
    /// If the queue is full, drops the oldest event that never causes a transition (`QueuedEvent.movesState` is false).
    /// If there is none, drops the oldest event. Events of the attempt in progress are never dropped.
    ///
    /// The outputs contain the dropped event.
    ///
    /// - Parameters:
    ///   - eventID: 1 to 128 printable ASCII characters, never used before by this driver, for example a random UUID.
    ///   - now: the present time, which becomes `timestamp` in the body.
    public mutating func enqueue(
        _ draft: EventDraft, eventID: String, appState: AppState? = nil, at now: Moment
    ) throws(EnqueueError) -> [QueueOutput] {
        if entries.contains(where: { $0.event.eventID == eventID }) { throw .duplicateID }
        let body = draft.body(eventID: eventID, queuedAt: now, source: source, appState: appState)
        do { _ = try EventSubmission.decode(body, route: .native) } catch { throw .invalid(error) }
        let event = QueuedEvent(eventID: eventID, body: body, movesState: draft.name.movesState)
        do { try journal.append(event) } catch { throw .journal(error) }
        entries.append(Entry(event: event))
        return makeRoom()
    }

    private mutating func makeRoom() -> [QueueOutput] {
        guard entries.count > Self.eventsMax else { return [] }
        let spared = Set(attempt?.eventIDs ?? [])
        let candidates = entries.filter { !spared.contains($0.event.eventID) }.map(\.event)
        guard let event = candidates.first(where: { !$0.movesState }) ?? candidates.first else { return [] }
        return [.dropped(event, .overflow)] + remove([event.eventID])
    }

    private mutating func remove(_ eventIDs: [String]) -> [QueueOutput] {
        guard !eventIDs.isEmpty else { return [] }
        entries.removeAll { eventIDs.contains($0.event.eventID) }
        do {
            try journal.remove(eventIDs)
            return []
        } catch {
            return [.journalFailed(error)]
        }
    }

    // MARK: Sending

    /// The time at which to call `nextAttempt(at:accessToken:)`. The time can be in the past. Nil if there is nothing
    /// to send, an attempt is in progress, or the queue waits for a token.
    public var nextAttemptAt: Moment? {
        guard canSend else { return nil }
        return notBefore ?? Moment(millisecondsSinceEpoch: .min)
    }

    private var canSend: Bool {
        guard attempt == nil, !entries.isEmpty else { return false }
        return switch credential {
        case .accepted, .refreshed: true
        case .awaitingRefresh, .awaitingSignIn: false
        }
    }

    /// Returns the next request; nil if none is due. Only one request may be in progress at a time. Pass the outcome of
    /// every request, even `noResponse`, to `handle(_:of:at:using:)`.
    ///
    /// The body contains the stored bytes of one event, or of a batch. The header `X-Sent-At` is `now`. From this
    /// header, the server measures the error of the phone's clock.
    public mutating func nextAttempt(at now: Moment, accessToken: String) -> Attempt? {
        guard canSend, !mustWait(at: now), let first = entries.first else { return nil }
        let alone = first.isSentAlone || first.serverErrors > 0
        let batch = entries.prefix(Self.batchEventsMax).prefix { !$0.isSentAlone && $0.serverErrors == 0 }
        let events = alone ? [first.event] : batch.map(\.event)
        if case .refreshed(firstUsedAt: nil) = credential { credential = .refreshed(firstUsedAt: now) }
        attemptNumber += 1
        let attempt = Attempt(
            request: EventRequest.make(events, sentAt: now, accessToken: accessToken), eventIDs: events.map(\.eventID),
            number: attemptNumber)
        self.attempt = attempt
        return attempt
    }

    /// Returns whether the queue must still wait at `now`. If the remaining time exceeds the whole wait by more than
    /// `Backoff.clockStepMillisecondsMax`, the phone's clock was set back. The queue then stops waiting.
    private func mustWait(at now: Moment) -> Bool {
        guard let notBefore, now < notBefore else { return false }
        return notBefore.milliseconds(since: now) <= waitMilliseconds + Backoff.clockStepMillisecondsMax
    }

    /// Records that a new token is available. The next attempt must use this token.
    public mutating func tokenRefreshed() {
        if case .awaitingRefresh = credential { credential = .refreshed(firstUsedAt: nil) }
    }

    /// Records that no new token is available. The queue pauses until `signedIn`.
    public mutating func refreshFailed() {
        if case .awaitingRefresh = credential { credential = .awaitingSignIn }
    }

    /// Records that the queue's driver signed in. Returns false, and changes nothing, if `driver` is another driver.
    public mutating func signedIn(as driver: DriverID) -> Bool {
        guard driver == self.driver else { return false }
        credential = .accepted
        return true
    }

    // MARK: Outcomes

    /// Handles the outcome of the attempt in progress. Ignores the outcome of any other attempt.
    ///
    /// The effect on an event depends on the status:
    ///
    /// - 2xx with the event's id: the event leaves the queue.
    /// - 401, or 403 whose body is a problem document of this server: a new token is requested. If the server rejects
    ///   the new token too, within five minutes of its first use, the driver must sign in again.
    /// - 3xx, 408, 429, 5xx, no response, or 2xx without the event's id: the event is sent again, after a delay (see
    ///   below).
    /// - any other 4xx whose body is a problem document of this server: the event is dropped.
    /// - any other response, such as an HTML page with 404: the event is sent again, as after a 500. A gateway or a
    ///   captive portal sends such responses.
    ///
    /// A response may ask for a delay in `Retry-After` or, if that field is absent, in `RateLimit`. It may also ask in
    /// the member `retry_after` of the body or of a batch's results. `Backoff.milliseconds` gets the longest of these
    /// delays.
    ///
    /// Responses with status 500, and of the last kind above, count as server errors of the event. After five of them
    /// (`serverErrorsMax`), and after every four further ones, the event is moved to the end of the queue.
    ///
    /// Each result in a batch is handled like the response to a single event. If the server rejects a batch as a whole,
    /// each of its events is sent again in a request of its own.
    public mutating func handle(
        _ outcome: HTTPExchange.Outcome, of attempt: Attempt, at now: Moment,
        using random: inout some RandomNumberGenerator
    ) -> [QueueOutput] {
        guard attempt.number == self.attempt?.number else { return [] }
        self.attempt = nil
        guard let replies = EventReply.all(in: outcome, to: attempt.eventIDs) else {
            for index in indices(of: attempt) { entries[index].isSentAlone = true }
            return []
        }
        var outputs = settle(replies, of: attempt)
        outputs += judgeCredential(by: replies, at: now)
        pause(after: replies, outcome, at: now, using: &random)
        if let notBefore, canSend { outputs.append(.wait(until: notBefore)) }
        return outputs
    }

    private mutating func settle(_ replies: [EventReply], of attempt: Attempt) -> [QueueOutput] {
        var outputs: [QueueOutput] = []
        var done: [String] = []
        for (eventID, reply) in zip(attempt.eventIDs, replies) {
            guard let index = entries.firstIndex(where: { $0.event.eventID == eventID }) else { continue }
            switch reply {
            case .stored(let answer): outputs.append(.delivered(eventID: eventID, answer))
            case .refused(let refusal): outputs.append(.dropped(entries[index].event, .refused(refusal)))
            case .unauthorized, .again: continue
            case .serverError:
                noteServerError(at: index)
                continue
            }
            done.append(eventID)
        }
        return outputs + remove(done)
    }

    private mutating func noteServerError(at index: Int) {
        entries[index].serverErrors += 1
        guard entries[index].serverErrors >= Self.serverErrorsMax else { return }
        var entry = entries.remove(at: index)
        entry.serverErrors = 1
        entries.append(entry)
    }

    private mutating func judgeCredential(by replies: [EventReply], at now: Moment) -> [QueueOutput] {
        if replies.contains(.unauthorized) {
            if case .refreshed(let firstUsedAt) = credential,
                (0...Self.newTokenMilliseconds).contains(now.milliseconds(since: firstUsedAt ?? now))
            {
                credential = .awaitingSignIn
                return [.signInAgain]
            }
            credential = .awaitingRefresh
            return [.refreshToken]
        }
        if replies.contains(where: \.isSettled) { credential = .accepted }
        return []
    }

    /// Sets the time of the next attempt. If the attempt settled some events but must repeat others, the count of
    /// failures restarts, and this attempt is the first failure.
    private mutating func pause(
        after replies: [EventReply], _ outcome: HTTPExchange.Outcome, at now: Moment,
        using random: inout some RandomNumberGenerator
    ) {
        if replies.contains(where: \.isSettled) { failures = 0 }
        guard replies.contains(where: \.isToBeRepeated) else {
            notBefore = nil
            return
        }
        failures = min(failures + 1, 64)
        let delays = replies.compactMap(\.retryAfterSeconds) + [outcome.retryAfterSeconds ?? 0]
        let wait = Backoff.milliseconds(failures: failures, retryAfterSeconds: delays.max(), using: &random)
        waitMilliseconds = wait
        notBefore = now.advanced(byMilliseconds: wait)
    }

    private func indices(of attempt: Attempt) -> [Int] {
        entries.indices.filter { attempt.eventIDs.contains(entries[$0].event.eventID) }
    }
}

extension EventQueue: Sendable where Journal: Sendable {}

extension EventName {
    fileprivate var movesState: Bool {
        switch self {
        case .chargerTargeted, .activationRejected, .sessionRestored, .diagnostic: false
        case .enteredChargerIntentZone, .exitedChargerIntentZone, .anchorDwellComplete, .anchorLost,
            .exclusiveActivatedByWeb, .departedCharger, .enteredMerchantZone, .visitVerifiedByWeb, .webRequestedEnd,
            .gracePeriodExpired, .hardTimeoutExpired, .reset:
            true
        }
    }
}
