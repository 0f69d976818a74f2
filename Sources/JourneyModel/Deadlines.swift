// When a journey's deadlines pass. Each lies in the order of events at the place of the expiry that the server
// stores for it: after every client event of its millisecond, grace before hard. No clock: `now` is told.

extension Journey {
    /// The running deadline that passes first, grace first on a tie, under the name of the event that reports
    /// it; nil when none runs. The store adds `sessionID`, which stays when the session ends.
    public var nextDeadline: (name: EventName, at: Moment)? {
        switch (graceDeadline, hardDeadline) {
        case (nil, nil): nil
        case (let grace?, nil): (.gracePeriodExpired, grace)
        case (nil, let hard?): (.hardTimeoutExpired, hard)
        case (let grace?, let hard?):
            grace <= hard ? (.gracePeriodExpired, grace) : (.hardTimeoutExpired, hard)
        }
    }

    /// The journey at that moment: deadlines that lie strictly before it have passed. One in this very
    /// millisecond has not, since a client event of the same millisecond could still come before it.
    public func advanced(to now: Moment) -> Journey {
        var journey = self
        while journey.takeDeadline(before: now) != nil {}
        return journey
    }

    /// Lets the next deadline pass when it lies strictly before `now`: the session ends, and the deadline is
    /// returned so that its expiry can be stored. Nil when there is none to take; then nothing changed.
    public mutating func takeDeadline(before now: Moment) -> (name: EventName, at: Moment)? {
        guard let deadline = nextDeadline, deadline.at < now else { return nil }
        end(by: deadline.name)
        return deadline
    }

    /// The same for the deadlines that lie before an event in the order. `apply` does this by itself; a store
    /// does it first, to learn of the expiries that it has to insert before the event.
    public mutating func takeDeadline(before event: OrderedEvent) -> (name: EventName, at: Moment)? {
        guard let deadline = nextDeadline, precedes(deadline, event) else { return nil }
        end(by: deadline.name)
        return deadline
    }

    private func precedes(_ deadline: (name: EventName, at: Moment), _ event: OrderedEvent) -> Bool {
        if deadline.at != event.occurredAt { return deadline.at < event.occurredAt }
        return event.origin == .server
            && OrderedEvent.expiry(deadline.name, at: deadline.at, sessionID: sessionID) < event
    }
}

extension OrderedEvent {
    /// The event that the server stores when a deadline of that session passes. Its `eventID`, which is also its
    /// `idempotencyKey`, is a function of the arguments: the same expiry is never stored twice, and two that tie
    /// in time and rank (one of them stale) have one order everywhere. It begins with a character beyond ASCII,
    /// so that no client can have used it. The durations mean nothing and are 0.
    public static func expiry(_ name: EventName, at deadline: Moment, sessionID: String?) -> OrderedEvent {
        let id = "\u{A7}\(name.canonical)/\(sessionID ?? "")/\(deadline.millisecondsSinceEpoch)"
        return OrderedEvent(
            name: name, sessionID: sessionID, chargerID: nil, occurredAt: deadline, sequence: nil, eventID: id,
            idempotencyKey: id, origin: .server, gracePeriodSeconds: 0, hardTimeoutSeconds: 0)
    }
}
