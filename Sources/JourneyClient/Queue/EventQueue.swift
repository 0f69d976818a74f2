// The durable queue of unsent events. It decides what to send when; the app carries the bytes. No clock, no timer,
// no network of its own: moments, tokens and randomness are passed in.
//
// A journey is the fold of its events in their own order, not in the order of arrival, so nothing depends on the
// order of sending. The queue keeps it all the same: it makes the server's state on the way the phone's.

public import JourneyModel

/// One driver's unsent events. Another driver's go into another queue with another journal: a token names whose
/// events they are.
public struct EventQueue<Journal: EventJournal> {
    private struct Entry {
        var event: QueuedEvent
        /// Answers of 500 to this event alone.
        var serverErrors = 0
        /// A batch with this event was refused as a whole.
        var goesAlone = false
    }

    private enum Credential {
        case accepted
        /// Refused; a new one was asked for.
        case awaitingRefresh
        /// A new one, not tried yet: when it is refused too, asking again is of no use.
        case refreshed
        case awaitingSignIn
    }

    private var journal: Journal
    private var entries: [Entry]
    private var credential = Credential.accepted
    private var attempt: Attempt?
    private var attemptNumber = 0
    /// Attempts in a row after which something was left to be sent again.
    private var failures = 0
    private var notBefore: Moment?

    public let driver: DriverID
    private let source: String

    /// A drive has some ten events: room for weeks without a network.
    public static var eventsMax: Int { 1000 }
    /// What the smaller of the server's limits admits in one window (contract, section 4): more would only be
    /// answered with 429.
    public static var batchEventsMax: Int { 30 }
    /// An event that makes the server fail this often goes to the end of the queue, so that it cannot hold up others.
    static var serverErrorsMax: Int { 5 }

    /// - Parameters:
    ///   - driver: whose events these are.
    ///   - journal: whose events are taken over.
    ///   - source: the wire's `source`, such as `ios_native`.
    public init(driver: DriverID, journal: Journal, source: String = "ios_native") throws(JournalError) {
        var journal = journal
        entries = try journal.load().map { Entry(event: $0) }
        self.journal = journal
        self.driver = driver
        self.source = source
    }

    /// Events that the server has not acknowledged.
    public var count: Int { entries.count }

    /// In the order in which they will be sent.
    public var events: [QueuedEvent] { entries.map(\.event) }

    // MARK: In

    /// Fixes the body of the event and stores it; once this has returned, the event survives a crash.
    ///
    /// When the queue is full, one event makes room: the oldest of those that move no state, else the oldest. Events
    /// on their way to the server are spared. The outputs tell which one went.
    ///
    /// - Parameters:
    ///   - eventID: 1 to 128 printable ASCII characters, unique for the driver for ever; a random UUID is.
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

    /// When to ask for an attempt; a moment that may have passed. Nil while there is nothing to send, an attempt is
    /// under way, or the queue waits for a token.
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

    /// The next request, if it is time for one. There is one at a time: each has to be reported to
    /// `handle(_:of:at:using:)`, `noResponse` included.
    ///
    /// One event goes alone, with the very bytes that were stored; several go as a batch of the very same bytes.
    /// `X-Sent-At` is `now`, by which the server measures the phone's clock.
    public mutating func nextAttempt(at now: Moment, accessToken: String) -> Attempt? {
        guard canSend, !mustWait(at: now), let first = entries.first else { return nil }
        let alone = first.goesAlone || first.serverErrors > 0
        let batch = entries.prefix(Self.batchEventsMax).prefix { !$0.goesAlone && $0.serverErrors == 0 }
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

    /// The new token has come; the next attempt uses it.
    public mutating func tokenRefreshed() {
        if case .awaitingRefresh = credential { credential = .refreshed }
    }

    /// There is no new token to be had: the queue rests until `signedIn`.
    public mutating func refreshFailed() {
        if case .awaitingRefresh = credential { credential = .awaitingSignIn }
    }

    /// The driver signed in. False, and nothing changes, when it is not the driver whose events these are.
    public mutating func signedIn(as driver: DriverID) -> Bool {
        guard driver == self.driver else { return false }
        credential = .accepted
        return true
    }

    // MARK: Outcomes

    /// Takes what came of an attempt. The outcome of any but the last one is ignored.
    ///
    /// By status: 2xx that names the event takes it out of the queue; 401 and 403 ask for a new token, once; 408, 429,
    /// 5xx, no answer and an answer that is none of this server's keep it, to be sent again after 1, 2, 4 ... 60 s or
    /// `Retry-After`, whichever is later, and some randomness; any other status drops it. A batch is judged event by
    /// event; one that is refused as a whole is sent again as single events.
    public mutating func handle(
        _ outcome: HTTPExchange.Outcome, of attempt: Attempt, at now: Moment,
        using random: inout some RandomNumberGenerator
    ) -> [QueueOutput] {
        guard attempt.number == self.attempt?.number else { return [] }
        self.attempt = nil
        guard let replies = EventReply.all(in: outcome, to: attempt.eventIDs) else {
            for index in indices(of: attempt) { entries[index].goesAlone = true }
            return []
        }
        var outputs = settle(replies, of: attempt)
        outputs += judgeCredential(by: replies)
        pause(after: replies, outcome, at: now, using: &random)
        if let notBefore, canSend { outputs.append(.wait(until: notBefore)) }
        return outputs
    }

    /// Takes out what is done and marks what made the server fail.
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

    /// A batch that got somewhere counts as the first failure, however many went before.
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
    /// Whether the table of transitions leads anywhere by this event.
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
