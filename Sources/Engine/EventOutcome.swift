package import JourneyModel

/// The outcome of one event, which the store returns and the response reports.
package enum EventOutcome: Hashable, Sendable {
    case stored(StoredEvent)
    /// A repeat: an event with the same idempotency key and the same members is already stored. The associated value is
    /// that stored event, with its current verdict.
    case replayed(StoredEvent)
    /// An event with the same idempotency key but different members is already stored: 422.
    case keyReused
    /// The session belongs to another driver, or it is unknown although registration is required: 404.
    case sessionNotFound
    /// A service named a driver who is unknown or deleted: 404.
    case driverNotFound
    /// The idempotency key is new, and the sender (a driver or a service) has used up the rate limit: 429.
    ///
    /// The store itself returns this case only for a late event whose refold `RefoldCharging` does not permit. Large
    /// refolds count against the sender's rate limit, so earlier refolds can use it up.
    case rateLimited
    /// The event is not stored, or it is unknown whether it is stored. `StoreFailure` says which.
    case failed(StoreFailure)
}

package struct StoredEvent: Hashable, Sendable {
    package var eventID: String
    package var verdict: Verdict
    /// The driver's journey after the last event in the contract's order. The store does not apply deadlines that have
    /// passed since that event; `Ingest` does (`Journey.advanced(to:)`).
    package var journey: Journey
    /// Whether this event caused a refold so large that it counted against the rate limit. False for a repeat.
    package var chargesRefold: Bool

    package init(eventID: String, verdict: Verdict, journey: Journey, chargesRefold: Bool = false) {
        self.eventID = eventID
        self.verdict = verdict
        self.journey = journey
        self.chargesRefold = chargesRefold
    }
}

extension EventOutcome {
    /// Whether the event is not stored because of the client's request, and not because of a failure of the server.
    package var isRefusal: Bool {
        switch self {
        case .rateLimited, .keyReused, .sessionNotFound, .driverNotFound: true
        case .stored, .replayed, .failed: false
        }
    }

    var isStored: Bool {
        switch self {
        case .stored, .replayed: true
        case .keyReused, .sessionNotFound, .driverNotFound, .rateLimited, .failed: false
        }
    }

    package var isRepeat: Bool {
        if case .replayed = self { true } else { false }
    }

    /// Applies the deadlines that passed before `now`, the receive time of the request.
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
