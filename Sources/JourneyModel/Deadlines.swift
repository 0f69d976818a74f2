// Determines when a journey's deadlines pass. In the order of events, a deadline has the same position as the event
// that the server stores for it (the expiry): after every client event of the same millisecond. If both deadlines are
// in one millisecond, the grace period comes before the hard timeout. This file reads no clock: `now` is passed in.

extension Journey {
    /// The next running deadline, with the name of the event that reports it. Nil if no deadline is running. If both
    /// deadlines are at the same time, the grace period comes first. The session id of the event is the journey's
    /// `sessionID`, which the journey keeps when the session ends.
    public var nextDeadline: (name: EventName, at: Moment)? {
        switch (graceDeadline, hardDeadline) {
        case (nil, nil): nil
        case (let grace?, nil): (.gracePeriodExpired, grace)
        case (nil, let hard?): (.hardTimeoutExpired, hard)
        case (let grace?, let hard?):
            grace <= hard ? (.gracePeriodExpired, grace) : (.hardTimeoutExpired, hard)
        }
    }

    /// Returns the journey at `now`. Every deadline strictly before `now` has been applied to it. A deadline in the
    /// millisecond of `now` has not passed yet, because a client event of that millisecond would come before the
    /// deadline.
    public func advanced(to now: Moment) -> Journey {
        var journey = self
        while journey.takeDeadline(before: now) != nil {}
        return journey
    }

    /// Whether `advanced(to:)` changes anything.
    public func hasPassedDeadline(at now: Moment) -> Bool { nextDeadline.map { $0.at < now } ?? false }

    /// If the next deadline is strictly before `now`, ends the session and returns the deadline, so that the caller can
    /// store the event for this deadline. Otherwise returns nil and changes nothing.
    public mutating func takeDeadline(before now: Moment) -> (name: EventName, at: Moment)? {
        guard let deadline = nextDeadline, deadline.at < now else { return nil }
        end(by: deadline.name)
        return deadline
    }

    /// Applies the next deadline if it precedes `event` in the order of events, and returns the deadline. Otherwise
    /// returns nil and changes nothing. `apply` applies deadlines too, but does not return them. A store therefore
    /// calls this method first, to learn which expiry events it must insert before `event`.
    public mutating func takeDeadline(before event: OrderedEvent) -> (name: EventName, at: Moment)? {
        guard let deadline = nextDeadline, precedes(deadline, event) else { return nil }
        end(by: deadline.name)
        return deadline
    }

    /// Whether `takeDeadline(before: event)` changes anything.
    public func hasDeadline(before event: OrderedEvent) -> Bool { nextDeadline.map { precedes($0, event) } ?? false }

    private func precedes(_ deadline: (name: EventName, at: Moment), _ event: OrderedEvent) -> Bool {
        if deadline.at != event.occurredAt { return deadline.at < event.occurredAt }
        // An event with this name and session is the stored expiry event for this deadline. The event's id may differ
        // from the id that is computed below, because a deletion of the driver gives the session and its events new
        // ids.
        if event.name == deadline.name, haveSameBytes(event.sessionID, sessionID) { return false }
        return event.origin == .server
            && OrderedEvent.expiry(deadline.name, at: deadline.at, sessionID: sessionID) < event
    }
}

extension OrderedEvent {
    /// Returns the event that the server stores when a deadline of the session passes. Its `eventID`, which is also its
    /// `idempotencyKey`, consists of the arguments. Each such event (an expiry) is therefore stored only once. Two
    /// expiries with the same name and time are of different sessions, so their ids differ, and every fold orders them
    /// by these ids. No client can choose such an id, because it begins with `§`, which is not an ASCII character. The
    /// two durations in the event are 0 and not used.
    public static func expiry(_ name: EventName, at deadline: Moment, sessionID: String?) -> OrderedEvent {
        let id = "\u{A7}\(name.canonical)/\(sessionID ?? "")/\(deadline.millisecondsSinceEpoch)"
        return OrderedEvent(
            name: name, sessionID: sessionID, chargerID: nil, occurredAt: deadline, sequence: nil, eventID: id,
            idempotencyKey: id, origin: .server, gracePeriodSeconds: 0, hardTimeoutSeconds: 0)
    }
}
