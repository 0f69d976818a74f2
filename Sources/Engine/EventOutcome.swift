package import JourneyModel

/// The outcome of one event. The store returns it, and the response reports it. Every event has an outcome of this
/// type: a single event, an event of a batch, and a repeat.
package enum EventOutcome: Hashable, Sendable {
    case stored(StoredEvent)
    /// A repeat: an event with the same idempotency key and the same members is already stored. The associated value is
    /// the stored event, with its current verdict (the result of the fold).
    case replayed(StoredEvent)
    /// An event with the same idempotency key but different members was stored before: 422.
    case keyReused
    /// The session belongs to another driver, or it is unknown although registration is required: 404.
    case sessionNotFound
    /// A service named a driver who is unknown or deleted: 404.
    case driverNotFound
    /// The idempotency key is new, and the rate limit of the driver or the service is used up: 429.
    ///
    /// The store itself returns this case only for a late event that `RefoldCharging` does not permit. On PostgreSQL, a
    /// refold that takes too long is charged, and this charge can bring the sender over the limit.
    case rateLimited
    /// The event is not stored, or it is unknown whether it is stored; `StoreFailure` distinguishes the two.
    case failed(StoreFailure)
}

package struct StoredEvent: Hashable, Sendable {
    package var eventID: String
    package var verdict: Verdict
    /// The driver's journey after the driver's last event in the contract's order. The store does not apply deadlines
    /// that have passed since that event; `Ingest` applies them (`Journey.advanced(to:)`).
    package var journey: Journey
    /// Whether this event caused a refold that was counted against the rate limit because it was large. False for a
    /// repeat.
    package var chargesRefold: Bool

    package init(eventID: String, verdict: Verdict, journey: Journey, chargesRefold: Bool = false) {
        self.eventID = eventID
        self.verdict = verdict
        self.journey = journey
        self.chargesRefold = chargesRefold
    }
}

extension EventOutcome {
    /// Whether the event was refused because of the client's request. If the server failed to store the event, this is
    /// false.
    package var isRefusal: Bool {
        switch self {
        case .rateLimited, .keyReused, .sessionNotFound, .driverNotFound: true
        case .stored, .replayed, .failed: false
        }
    }

    /// Whether the event is on disk, either from this request or from an earlier one.
    var isStored: Bool {
        switch self {
        case .stored, .replayed: true
        case .keyReused, .sessionNotFound, .driverNotFound, .rateLimited, .failed: false
        }
    }

    package var isRepeat: Bool {
        if case .replayed = self { true } else { false }
    }

    /// Applies deadlines to the journey of the outcome: those that passed before `now`, the receive time of the
    /// request.
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
