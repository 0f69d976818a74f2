// The queue's outputs to the app.

public import JourneyModel

/// One request to send, and the events in it.
public struct Attempt: Hashable, Sendable {
    public let request: HTTPExchange.Request
    /// The ids of the events, in the order of the body. If there are several, the request is a batch.
    public let eventIDs: [String]
    /// Distinguishes the attempts of one queue.
    let number: Int
}

/// The result of an attempt, or of enqueueing into a full queue.
public enum QueueOutput: Hashable, Sendable {
    /// The event is durable on the server and removed from the queue. The answer is nil when this release does not
    /// understand a newer server's form.
    case delivered(eventID: String, EventAnswer?)
    /// The event is removed from the queue and not stored on the server. Log this: the cause is a bug, or weeks
    /// without a network.
    case dropped(QueuedEvent, DropReason)
    /// Call `nextAttempt(at:accessToken:)` at this moment.
    case wait(until: Moment)
    /// Get a new access token, then call `tokenRefreshed`, or `refreshFailed` if none is available.
    case refreshToken
    /// The new token was rejected too. The queue pauses until `signedIn`.
    case signInAgain
    /// The events are removed from this queue, but not from the journal: they are sent once more after a restart,
    /// which is harmless.
    case journalFailed(JournalError)
}

public enum DropReason: Hashable, Sendable {
    /// A retry can never succeed.
    case refused(Refusal)
    /// The queue was full, and this was its oldest event that moves no state, or else its oldest event.
    case overflow
}

/// Why an event was not enqueued.
public enum EnqueueError: Error, Hashable, Sendable {
    /// The server would reject the event.
    case invalid(BodyRefusal)
    /// The id is in the queue already.
    case duplicateID
    case journal(JournalError)
}
