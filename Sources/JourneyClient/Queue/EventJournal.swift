// The storage that keeps unsent events after the app has ended.

/// An event in the queue. Its body no longer changes.
public struct QueuedEvent: Hashable, Sendable {
    /// The id of the event, which is also its idempotency key.
    public let eventID: String
    /// The body of `POST /native/events`, the same at every attempt.
    public let body: [UInt8]
    /// Whether the table of transitions has a transition for this event. A full queue first drops events for which this
    /// is false.
    public let movesState: Bool

    public init(eventID: String, body: [UInt8], movesState: Bool) {
        self.eventID = eventID
        self.body = body
        self.movesState = movesState
    }
}

/// Stores the queued events of one driver.
public protocol EventJournal {
    /// Returns the events that were appended and not removed, in the order in which they were appended. The queue calls
    /// this method once, before the other methods.
    mutating func load() throws(JournalError) -> [QueuedEvent]

    /// Stores the event. After this method has returned, the event survives a crash. After an error, the event may be
    /// lost.
    mutating func append(_ event: QueuedEvent) throws(JournalError)

    /// Removes events, and ignores unknown ids. After a crash or an error, `load` may still return the removed events.
    /// This is harmless, because sending an event again has no effect.
    mutating func remove(_ eventIDs: [String]) throws(JournalError)
}

/// A storage error.
public struct JournalError: Error, Hashable, Sendable {
    /// A text for a log. It contains nothing from the events.
    public var detail: String

    public init(_ detail: String) {
        self.detail = detail
    }
}

/// Keeps events in memory only. For tests and previews.
public struct MemoryEventJournal: EventJournal, Sendable {
    public private(set) var events: [QueuedEvent]

    public init(_ events: [QueuedEvent] = []) {
        self.events = events
    }

    public mutating func load() -> [QueuedEvent] { events }

    public mutating func append(_ event: QueuedEvent) { events.append(event) }

    public mutating func remove(_ eventIDs: [String]) {
        events.removeAll { eventIDs.contains($0.eventID) }
    }
}
