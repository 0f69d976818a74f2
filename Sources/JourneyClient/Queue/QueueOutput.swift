// The queue's outputs to the app.

public import JourneyModel

/// One request to send, and the events in it.
public struct Attempt: Hashable, Sendable {
    public let request: HTTPExchange.Request
    /// The ids of the events, in the order of the body. If there are several, the request is a batch.
    public let eventIDs: [String]
    let number: Int
}

/// The result of an attempt, or of enqueueing into a full queue.
public enum QueueOutput: Hashable, Sendable {
    /// The event is durable on the server and removed from the queue. If a newer server sent an answer that this
    /// release cannot read, the answer is nil.
    case delivered(eventID: String, EventResponse?)
    /// The event is removed from the queue and not stored on the server. The app should log this, because the cause is
    /// a bug, or weeks without a network.
    case dropped(QueuedEvent, DropReason)
    /// Call `nextAttempt(at:accessToken:)` at this moment.
    case wait(until: Moment)
    /// Get a new access token, and then call `tokenRefreshed`. If no new token is available, call `refreshFailed`.
    case refreshToken
    /// The server also rejected the new token, within a few minutes of its first use. The driver must sign in again.
    /// The queue pauses until `signedIn`.
    case signInAgain
    /// Events were removed from this queue, but not from the journal. After a restart, they are sent once more. This is
    /// harmless, because the server stores an event only once.
    case journalFailed(JournalError)
}

public enum DropReason: Hashable, Sendable {
    /// The server refused the event, and a retry can never succeed.
    case refused(Refusal)
    /// The queue was full. `EventQueue.enqueue` describes which event a full queue drops.
    case overflow
}

/// The reason why an event was not enqueued.
public enum EnqueueError: Error, Hashable, Sendable {
    /// The server would reject the event.
    case invalid(BodyRefusal)
    /// The id is in the queue already.
    case duplicateID
    /// The event could not be stored, for example because the disk is full. It may be enqueued again with the same id.
    case journal(JournalError)
}
