// What the queue tells the app.

public import JourneyModel

/// One request to carry out, and the events that it carries.
public struct Attempt: Hashable, Sendable {
    public let request: HTTPExchange.Request
    /// In the order of the body. More than one: the request is a batch.
    public let eventIDs: [String]
    /// Tells attempts of one queue apart.
    let number: Int
}

/// What came of an attempt, or of an enqueuing that found the queue full.
public enum QueueOutput: Hashable, Sendable {
    /// The event is on the server's disk and out of the queue. The answer is nil when a newer server's form is not
    /// understood.
    case delivered(eventID: String, EventAnswer?)
    /// Out of the queue and not on the server. For a log: a bug, or weeks without a network.
    case dropped(QueuedEvent, DropReason)
    /// Ask for an attempt again at that moment.
    case wait(until: Moment)
    /// Get a new access token, then call `tokenRefreshed`, or `refreshFailed` if there is none to be had.
    case refreshToken
    /// The new token was refused too. The queue rests until `signedIn`.
    case signInAgain
    /// The events are out of this queue, but not out of the journal: they will be sent once more after a restart,
    /// which does no harm.
    case journalFailed(JournalError)
}

public enum DropReason: Hashable, Sendable {
    /// No retry can ever work.
    case refused(Refusal)
    /// The queue was full and this was the event that mattered least.
    case overflow
}

/// Why an event did not get into the queue.
public enum EnqueueError: Error, Hashable, Sendable {
    /// The server would refuse it.
    case invalid(BodyRefusal)
    /// The id is in the queue already.
    case duplicateID
    case journal(JournalError)
}
