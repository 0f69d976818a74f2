// The storage in which unsent events survive the app.

/// An event whose bytes no longer change.
public struct QueuedEvent: Hashable, Sendable {
    /// Also its idempotency key.
    public let eventID: String
    /// The body of `POST /native/events`, the same at every attempt.
    public let body: [UInt8]
    /// Whether the table of transitions has a row for it. A full queue drops events without one first.
    public let movesState: Bool

    public init(eventID: String, body: [UInt8], movesState: Bool) {
        self.eventID = eventID
        self.body = body
        self.movesState = movesState
    }
}

/// Stores the queued events of one driver.
public protocol EventJournal {
    /// Returns the events that were appended and not removed, in the order of appending. Called once, before the
    /// others.
    mutating func load() throws(JournalError) -> [QueuedEvent]

    /// The event survives a crash once this has returned. After an error it may or may not.
    mutating func append(_ event: QueuedEvent) throws(JournalError)

    /// Unknown ids are ignored. After a crash or an error the events may come back; sending them again is harmless.
    mutating func remove(_ eventIDs: [String]) throws(JournalError)
}

/// A storage error.
public struct JournalError: Error, Hashable, Sendable {
    /// For a log; contains no content of events.
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
