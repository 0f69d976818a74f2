// Determines when a journey's deadlines pass. In the order of events, a deadline has the position of its expiry event:
// after every client event of the same millisecond. If both deadlines are in one millisecond, the grace period comes
// first.

extension Journey {
    /// The running deadline that passes first, and the name of the event that reports it. Nil if no deadline is
    /// running.
    ///
    /// The event that reports the deadline has the journey's `sessionID`. The journey keeps this id when the session
    /// ends.
    public var nextDeadline: (name: EventName, at: Moment)? {
        switch (graceDeadline, hardDeadline) {
        case (nil, nil): nil
        case (let grace?, nil): (.gracePeriodExpired, grace)
        case (nil, let hard?): (.hardTimeoutExpired, hard)
        case (let grace?, let hard?):
            grace <= hard ? (.gracePeriodExpired, grace) : (.hardTimeoutExpired, hard)
        }
    }

    /// Returns the journey at `now`, with every deadline strictly before `now` applied. A deadline in the millisecond
    /// of `now` is not applied yet, because a client event of that millisecond would come before the deadline.
    public func advanced(to now: Moment) -> Journey {
        var journey = self
        while journey.takeDeadline(before: now) != nil {}
        return journey
    }

    /// Whether `advanced(to:)` changes anything.
    public func hasPassedDeadline(at now: Moment) -> Bool { nextDeadline.map { $0.at < now } ?? false }

    /// If the next deadline is strictly before `now`, ends the session and returns the deadline; otherwise returns nil.
    /// The caller must store the deadline's expiry event.
    public mutating func takeDeadline(before now: Moment) -> (name: EventName, at: Moment)? {
        guard let deadline = nextDeadline, deadline.at < now else { return nil }
        end(by: deadline.name)
        return deadline
    }

    /// If the next deadline precedes `event` in the order of events, ends the session and returns the deadline;
    /// otherwise returns nil. A store calls this method before `apply`, to insert the expiry events before `event`.
    public mutating func takeDeadline(before event: OrderedEvent) -> (name: EventName, at: Moment)? {
        guard let deadline = nextDeadline, precedes(deadline, event) else { return nil }
        end(by: deadline.name)
        return deadline
    }

    /// Whether `takeDeadline(before: event)` changes anything.
    public func hasDeadline(before event: OrderedEvent) -> Bool { nextDeadline.map { precedes($0, event) } ?? false }

    private func precedes(_ deadline: (name: EventName, at: Moment), _ event: OrderedEvent) -> Bool {
        if deadline.at != event.occurredAt { return deadline.at < event.occurredAt }
        // An event with this name, session and time is the report of this deadline, so the deadline does not precede
        // it. `eventID` is not compared, because the deletion of a driver changes the ids of events and sessions.
        if event.name == deadline.name, haveSameBytes(event.sessionID, sessionID) { return false }
        return event.origin == .server
            && OrderedEvent.expiry(deadline.name, at: deadline.at, sessionID: sessionID) < event
    }
}

extension OrderedEvent {
    /// Returns the event that the server stores when a deadline of the session passes. Each expiry is stored only once,
    /// because its `eventID` and `idempotencyKey` are computed from the arguments. The event's two durations are not
    /// used.
    ///
    /// No client can send such an id, because the `§` at its beginning is not an ASCII character.
    public static func expiry(_ name: EventName, at deadline: Moment, sessionID: String?) -> OrderedEvent {
        let id = "\u{A7}\(name.canonical)/\(sessionID ?? "")/\(deadline.millisecondsSinceEpoch)"
        return OrderedEvent(
            name: name, sessionID: sessionID, chargerID: nil, occurredAt: deadline, sequence: nil, eventID: id,
            idempotencyKey: id, origin: .server, gracePeriodSeconds: 0, hardTimeoutSeconds: 0)
    }
}
