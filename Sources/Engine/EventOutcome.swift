package import JourneyModel

/// The outcome of one event, as the store returns it and as the response reports it. Single events, the events of a
/// batch, and repeats all have an outcome of this type.
package enum EventOutcome: Hashable, Sendable {
    case stored(StoredEvent)
    /// An event with the same idempotency key and the same members was stored before. The associated value is that
    /// event, with its current verdict (the result of the fold).
    case replayed(StoredEvent)
    /// An event with the same idempotency key but different members was stored before: 422.
    case keyReused
    /// The session belongs to another driver, or it is unknown although registration is required: 404.
    case sessionNotFound
    /// A service named a driver who is unknown or deleted: 404.
    case driverNotFound
    /// The idempotency key is new, and the rate limit of the driver or the service is used up: 429. The store itself
    /// returns this case only for a late event that `RefoldCharging` does not permit. The reason is that earlier
    /// refolds have used up the limit, or that too many of the driver's events have the same time. PostgreSQL's store
    /// also returns this case for a late event that would refold too many events.
    case rateLimited
    /// The event is not stored, or it is unknown whether the event is stored; see `StoreFailure`.
    case failed(StoreFailure)
}

package struct StoredEvent: Hashable, Sendable {
    package var eventID: String
    package var verdict: Verdict
    /// The driver's journey after the last stored event in the order. The store does not apply deadlines that have
    /// passed since that event; `Ingest` applies them (`Journey.advanced(to:)`).
    package var journey: Journey
    /// Whether storing this event caused a refold so large that the refold was counted against the rate limit. False
    /// for a repeat.
    package var chargesRefold: Bool

    package init(eventID: String, verdict: Verdict, journey: Journey, chargesRefold: Bool = false) {
        self.eventID = eventID
        self.verdict = verdict
        self.journey = journey
        self.chargesRefold = chargesRefold
    }
}

extension EventOutcome {
    /// Whether the event was refused because of the client's request, and not because of a failure of the server.
    package var isRefusal: Bool {
        switch self {
        case .rateLimited, .keyReused, .sessionNotFound, .driverNotFound: true
        case .stored, .replayed, .failed: false
        }
    }

    /// Whether the event is on disk, now or since an earlier request.
    var isStored: Bool {
        switch self {
        case .stored, .replayed: true
        case .keyReused, .sessionNotFound, .driverNotFound, .rateLimited, .failed: false
        }
    }

    package var isRepeat: Bool {
        if case .replayed = self { true } else { false }
    }

    /// Returns the outcome after applying the deadlines that passed before `now`, the time when the request was
    /// received.
    consuming func advanced(to now: Moment) -> EventOutcome {
        switch self {
        case .stored(let event) where event.journey.hasPassedDeadline(at: now): .stored(event.advanced(to: now))
        case .replayed(let event) where event.journey.hasPassedDeadline(at: now): .replayed(event.advanced(to: now))
        case .stored, .replayed, .keyReused, .sessionNotFound, .driverNotFound, .rateLimited, .failed: self
        }
    }
}

extension StoredEvent {
    fileprivate func advanced(to now: Moment) -> StoredEvent {
        var event = self
        event.journey = journey.advanced(to: now)
        return event
    }
}
