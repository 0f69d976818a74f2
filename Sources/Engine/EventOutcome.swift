package import JourneyModel

/// The outcome of one event, from the store to the encoder of the response. Single events, members of a batch and
/// repeats all have this type.
package enum EventOutcome: Hashable, Sendable {
    case stored(StoredEvent)
    /// An event with the same key and the same members was stored before; the verdict is its current one.
    case replayed(StoredEvent)
    /// An event with the same key and other members was stored before: 422.
    case keyReused
    /// The session belongs to another driver, or is unknown where registration is required: 404.
    case sessionNotFound
    /// The key is new, and the window is full: 429. The store itself returns this case only for a late event, after
    /// refolds have charged more than the limit (RefoldCharging.swift).
    case rateLimited
    /// The event is not stored, or it is unknown whether it is stored; see `StoreFailure`.
    case failed(StoreFailure)
}

package struct StoredEvent: Hashable, Sendable {
    package var eventID: String
    package var verdict: Verdict
    /// The driver's journey after the last stored event in the order. A store does not apply deadlines that have passed
    /// since; `Ingest` does (`Journey.advanced(to:)`).
    package var journey: Journey
    /// Whether this event caused so many events to be refolded that the refold was charged; false for a repeat.
    package var chargesRefold: Bool

    package init(eventID: String, verdict: Verdict, journey: Journey, chargesRefold: Bool = false) {
        self.eventID = eventID
        self.verdict = verdict
        self.journey = journey
        self.chargesRefold = chargesRefold
    }
}

extension EventOutcome {
    /// Whether nothing was stored because of the client's request.
    package var isRefusal: Bool {
        switch self {
        case .rateLimited, .keyReused, .sessionNotFound: true
        case .stored, .replayed, .failed: false
        }
    }

    package var isRepeat: Bool {
        if case .replayed = self { true } else { false }
    }

    /// Returns the outcome with those deadlines applied that passed before `now`, when the request was received.
    consuming func advanced(to now: Moment) -> EventOutcome {
        switch self {
        case .stored(let event) where event.journey.hasPassedDeadline(at: now): .stored(event.advanced(to: now))
        case .replayed(let event) where event.journey.hasPassedDeadline(at: now): .replayed(event.advanced(to: now))
        case .stored, .replayed, .keyReused, .sessionNotFound, .rateLimited, .failed: self
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
