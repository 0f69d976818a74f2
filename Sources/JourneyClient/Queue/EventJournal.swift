// Where unsent events outlive the app.

/// An event whose bytes do not change any more.
public struct QueuedEvent: Hashable, Sendable {
    /// Its idempotency key too.
    public let eventID: String
    /// The body of `POST /native/events`, the same at every attempt.
    public let body: [UInt8]
    /// Whether the table of transitions has a row for it. Of a queue that overflows, those without go first.
    public let movesState: Bool

    public init(eventID: String, body: [UInt8], movesState: Bool) {
        self.eventID = eventID
        self.body = body
        self.movesState = movesState
    }
}

/// Keeps the queued events of one driver.
public protocol EventJournal {
    /// The events that were appended and not removed, in the order of appending. Called once, first.
    mutating func load() throws(JournalError) -> [QueuedEvent]

    /// The event survives a crash once this has returned. After an error it may or may not.
    mutating func append(_ event: QueuedEvent) throws(JournalError)

    /// Ids that are not there are passed over. After a crash or an error the events may come back; sending them once
    /// more does no harm.
    mutating func remove(_ eventIDs: [String]) throws(JournalError)
}

/// The storage said no.
public struct JournalError: Error, Hashable, Sendable {
    /// For a log; holds no content of events.
    public var detail: String

    public init(_ detail: String) {
        self.detail = detail
    }
}

/// Survives nothing. For tests and previews.
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
