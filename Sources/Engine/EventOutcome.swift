package import JourneyModel

/// The outcome of one event: the same value from the store to the encoder, for a single event, a member of a batch and
/// a repeat.
package enum EventOutcome: Hashable, Sendable {
    case stored(StoredEvent)
    /// The same key with the same members was stored before; the verdict is the current one.
    case replayed(StoredEvent)
    /// The same key with other members: 422.
    case keyReused
    /// The session is another driver's, or unknown where registration is required: 404.
    case sessionNotFound
    /// The key is new, and the window is full: 429. A store returns it for a late event only, after refolds have
    /// charged more than the limit (RefoldCharging.swift).
    case rateLimited
    /// Not stored, or not known; the cases say which.
    case failed(StoreFailure)
}

package struct StoredEvent: Hashable, Sendable {
    package var eventID: String
    package var verdict: Verdict
    /// The driver's journey after the last stored event in the order. A store does not apply deadlines that have passed
    /// since; `Ingest` does (`Journey.advanced(to:)`).
    package var journey: Journey
    /// So many events were refolded for it that this was charged; false for a repeat.
    package var chargesRefold: Bool

    package init(eventID: String, verdict: Verdict, journey: Journey, chargesRefold: Bool = false) {
        self.eventID = eventID
        self.verdict = verdict
        self.journey = journey
        self.chargesRefold = chargesRefold
    }
}

extension EventOutcome {
    /// Nothing was stored, because of the client's request.
    package var isRefusal: Bool {
        switch self {
        case .rateLimited, .keyReused, .sessionNotFound: true
        case .stored, .replayed, .failed: false
        }
    }

    package var isRepeat: Bool {
        if case .replayed = self { true } else { false }
    }

    /// With the deadlines applied that passed before the request was received.
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
