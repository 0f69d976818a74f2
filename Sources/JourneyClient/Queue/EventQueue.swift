// The durable queue of unsent events. It decides what to send and when; the app sends the bytes. It has no clock,
// timer or network: moments, tokens and randomness are passed in.
//
// A journey is the fold of its events in their own order, not in the order of arrival, so nothing depends on the order
// of sending. The queue sends events in order nevertheless, so that the server's state follows the phone's step by
// step.

public import JourneyModel

/// One driver's unsent events. Each driver has a separate queue and journal, because the server assigns events to the
/// driver of the access token.
public struct EventQueue<Journal: EventJournal> {
    private struct Entry {
        var event: QueuedEvent
        /// Number of 500 responses to this event alone.
        var serverErrors = 0
        /// Whether to send the event alone, because a batch with it was rejected as a whole.
        var isSentAlone = false
    }

    private enum Credential {
        case accepted
        /// The token was rejected, and a new one was requested.
        case awaitingRefresh
        /// A new token, not used yet. If it is rejected too, requesting another one has no use.
        case refreshed
        case awaitingSignIn
    }

    private var journal: Journal
    private var entries: [Entry]
    private var credential = Credential.accepted
    private var attempt: Attempt?
    private var attemptNumber = 0
    /// Number of consecutive attempts after which events remained to be sent again.
    private var failures = 0
    private var notBefore: Moment?

    public let driver: DriverID
    private let source: String

    /// The most events in the queue: enough for weeks without a network, at about ten events per drive.
    public static var eventsMax: Int { 1000 }
    /// The most events in one batch: what the smaller of the server's rate limits admits in one window (contract,
    /// section 4). Further events would be answered with 429.
    public static var batchEventsMax: Int { 30 }
    /// After this many 500 responses an event moves to the end of the queue, so that it does not block others.
    static var serverErrorsMax: Int { 5 }

    /// - Parameters:
    ///   - driver: the driver whose events are queued.
    ///   - journal: the journal; its stored events become the first events of the queue.
    ///   - source: the wire's `source`, such as `ios_native`.
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

    // MARK: In

    /// Makes the final body of the event and stores it. Once this method has returned, the event survives a crash.
    ///
    /// When the queue is full, drops the oldest event that moves no state, or else the oldest event; events that are
    /// being sent are kept. The outputs name the dropped event.
    ///
    /// - Parameters:
    ///   - eventID: 1 to 128 printable ASCII characters, never used before by this driver, for example a random UUID.
    ///   - now: becomes the body's `timestamp`.
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

    // MARK: Out

    /// When to call `nextAttempt(at:accessToken:)`; may be in the past. Nil while there is nothing to send, an attempt
    /// is in progress, or the queue waits for a token.
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

    /// Returns the next request, if one is due. Only one request is in progress at a time: pass the outcome of each,
    /// `noResponse` included, to `handle(_:of:at:using:)`.
    ///
    /// The body is the stored bytes of one event, or a batch of the stored bytes of several. `X-Sent-At` is `now`; the
    /// server uses it to measure the error of the phone's clock.
    public mutating func nextAttempt(at now: Moment, accessToken: String) -> Attempt? {
        guard canSend, !mustWait(at: now), let first = entries.first else { return nil }
        let alone = first.isSentAlone || first.serverErrors > 0
        let batch = entries.prefix(Self.batchEventsMax).prefix { !$0.isSentAlone && $0.serverErrors == 0 }
        let events = alone ? [first.event] : batch.map(\.event)
        attemptNumber += 1
        let attempt = Attempt(
            request: EventRequest.make(events, sentAt: now, accessToken: accessToken), eventIDs: events.map(\.eventID),
            number: attemptNumber)
        self.attempt = attempt
        return attempt
    }

    private func mustWait(at now: Moment) -> Bool {
        guard let notBefore, now < notBefore else { return false }
        return notBefore.milliseconds(since: now) <= Backoff.waitMillisecondsMax
    }

    /// Records that a new token is available; the next attempt must use it.
    public mutating func tokenRefreshed() {
        if case .awaitingRefresh = credential { credential = .refreshed }
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

    /// Handles the outcome of the last attempt. Outcomes of earlier attempts are ignored.
    ///
    /// By status: a 2xx response that names the event removes it from the queue. 401 and 403 request a new token,
    /// once. After 408, 429, 5xx, no response, or a 2xx response that is not this server's, the event is sent again
    /// after 1, 2, 4 ... 60 s or `Retry-After`, whichever is later, plus a random delay. Any other status drops the
    /// event. Results of a batch are handled event by event; after the rejection of a whole batch its events are sent
    /// again one by one.
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
        outputs += judgeCredential(by: replies)
        pause(after: replies, outcome, at: now, using: &random)
        if let notBefore, canSend { outputs.append(.wait(until: notBefore)) }
        return outputs
    }

    /// Removes delivered and refused events, and counts the 500 responses to the others.
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

    private mutating func judgeCredential(by replies: [EventReply]) -> [QueueOutput] {
        if replies.contains(.unauthorized) {
            if case .refreshed = credential {
                credential = .awaitingSignIn
                return [.signInAgain]
            }
            credential = .awaitingRefresh
            return [.refreshToken]
        }
        if replies.contains(where: \.isSettled) { credential = .accepted }
        return []
    }

    /// Sets the time of the next attempt. If a batch settled some of its events, the count of failures starts again at
    /// 1.
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
        let wait = Backoff.milliseconds(
            failures: failures, retryAfterSeconds: outcome.retryAfterSeconds, using: &random)
        notBefore = now.advanced(byMilliseconds: wait)
    }

    private func indices(of attempt: Attempt) -> [Int] {
        entries.indices.filter { attempt.eventIDs.contains(entries[$0].event.eventID) }
    }
}

extension EventQueue: Sendable where Journal: Sendable {}

extension EventName {
    /// Whether the table of transitions has any transition for this event.
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
