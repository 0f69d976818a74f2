// The durable queue of unsent events. It decides what to send and when; the app carries the bytes. It has no clock,
// timer or network: moments, tokens and randomness are passed in.
//
// A journey is the fold of its events in their own order, not in the order of arrival, so nothing depends on the
// order of sending. The queue preserves it nevertheless: then the server's state follows the phone's step by step.

public import JourneyModel

/// One driver's unsent events. Another driver's go into another queue with another journal: the access token
/// determines whose events they are.
public struct EventQueue<Journal: EventJournal> {
    private struct Entry {
        var event: QueuedEvent
        /// Number of 500 responses to this event alone.
        var serverErrors = 0
        /// A batch with this event was rejected as a whole.
        var goesAlone = false
    }

    private enum Credential {
        case accepted
        /// Rejected; a new one was requested.
        case awaitingRefresh
        /// A new one, not tried yet: if it is rejected too, requesting another has no use.
        case refreshed
        case awaitingSignIn
    }

    private var journal: Journal
    private var entries: [Entry]
    private var credential = Credential.accepted
    private var attempt: Attempt?
    private var attemptNumber = 0
    /// Consecutive attempts that left something to be sent again.
    private var failures = 0
    private var notBefore: Moment?

    public let driver: DriverID
    private let source: String

    /// A drive has about ten events: room for weeks without a network.
    public static var eventsMax: Int { 1000 }
    /// The number that the smaller of the server's limits admits in one window (contract, section 4): more would
    /// only get a 429.
    public static var batchEventsMax: Int { 30 }
    /// An event that makes the server fail this often moves to the end of the queue, so that it does not block
    /// others.
    static var serverErrorsMax: Int { 5 }

    /// - Parameters:
    ///   - driver: whose events these are.
    ///   - journal: its events become the queue's first ones.
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

    /// In the order of sending.
    public var events: [QueuedEvent] { entries.map(\.event) }

    // MARK: In

    /// Fixes the event's body and stores it; once this has returned, the event survives a crash.
    ///
    /// When the queue is full, one event is dropped: the oldest of those that move no state, or else the oldest.
    /// Events that are being sent are kept. The outputs name the dropped one.
    ///
    /// - Parameters:
    ///   - eventID: 1 to 128 printable ASCII characters, unique for the driver forever; a random UUID is.
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

    /// When to ask for an attempt; may be in the past. Nil while there is nothing to send, an attempt is in
    /// progress, or the queue waits for a token.
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

    /// Returns the next request, if one is due. One is in progress at a time: the outcome of each must be passed to
    /// `handle(_:of:at:using:)`, `noResponse` included.
    ///
    /// One event is sent alone, with exactly the stored bytes; several are sent as a batch of exactly the same
    /// bytes. `X-Sent-At` is `now`, from which the server measures the phone's clock.
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

    /// A new token is available; the next attempt uses it.
    public mutating func tokenRefreshed() {
        if case .awaitingRefresh = credential { credential = .refreshed }
    }

    /// No new token is available: the queue pauses until `signedIn`.
    public mutating func refreshFailed() {
        if case .awaitingRefresh = credential { credential = .awaitingSignIn }
    }

    /// The driver signed in. Returns false, and changes nothing, for another driver than the one whose events these
    /// are.
    public mutating func signedIn(as driver: DriverID) -> Bool {
        guard driver == self.driver else { return false }
        credential = .accepted
        return true
    }

    // MARK: Outcomes

    /// Handles the outcome of an attempt. The outcome of any but the last one is ignored.
    ///
    /// By status: 2xx that names the event removes it from the queue; 401 and 403 request a new token, once; 408,
    /// 429, 5xx, no response and a response that is not this server's keep it, to be sent again after 1, 2, 4 ...
    /// 60 s or `Retry-After`, whichever is later, plus some randomness; any other status drops it. A batch is
    /// handled event by event; one that is rejected as a whole is sent again as single events.
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

    /// Removes what is done and marks events on which the server failed.
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

    /// A batch of which some event was settled counts as the first failure, however many preceded it.
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
