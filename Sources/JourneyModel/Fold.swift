// The fold: a journey is the result of its events, applied one after another in the contract's order
// (EventOrder.swift). It reads no clock and stores nothing; a deadline passes because an event, or `now`, lies
// after it.
//
// A deadline has a place in the same order as the events: that of the expiry that the server stores for it. Whether
// that expiry is already stored therefore changes no verdict and no state, and a stored expiry whose deadline was
// moved or cleared by a late event has no effect.

extension Journey {
    /// Applies one event at its place in the order: first the deadlines before it, then the event.
    ///
    /// An event of `origin` server ends the session exactly when it is the expiry of a deadline that is running
    /// now, at that millisecond and for that session. Otherwise its verdict is `.none`.
    ///
    /// The resulting journey and the verdict depend only on this journey and the event. So a refold may stop as
    /// soon as it reaches the journey that was stored after the same event before: everything that follows is
    /// unchanged.
    public mutating func apply(_ event: OrderedEvent) -> Verdict {
        while takeDeadline(before: event) != nil {}
        switch event.origin {
        case .server: return applyExpiry(event)
        case .client: return applyClientEvent(event)
        }
    }

    /// Ends the session if the event is the expiry of this journey's running deadline.
    private mutating func applyExpiry(_ event: OrderedEvent) -> Verdict {
        guard let deadline = nextDeadline, deadline.name == event.name, deadline.at == event.occurredAt,
            haveSameBytes(event.sessionID, sessionID)
        else { return .none }
        end(by: event.name)
        return .applied
    }

    private mutating func applyClientEvent(_ event: OrderedEvent) -> Verdict {
        let course = course(of: event)
        switch course.transition {
        case .stays:
            setTarget(event)
            return .none
        case .rejected(let reason): return .rejected(reason)
        case .to(let destination, let further):
            let implied = course.implied.union(further)
            if !implied.isEmpty { implied.forEachInOrder { take($0, provedBy: event) } }
            move(to: destination, by: event.name, on: event)
            return Verdict(.applied, implied: implied)
        }
    }

    /// An implied step is dated at the event that proves it. That is the latest time it can have happened, so a
    /// deadline that it starts never passes too early.
    private mutating func take(_ step: EventName, provedBy event: OrderedEvent) {
        switch step {
        case .reset: reset()
        case .exitedChargerIntentZone: move(to: .idle, by: step, on: event)
        case .enteredChargerIntentZone, .anchorLost: move(to: .nearCharger, by: step, on: event)
        case .anchorDwellComplete: move(to: .anchored, by: step, on: event)
        case .exclusiveActivatedByWeb: move(to: .sessionActive, by: step, on: event)
        case .departedCharger: move(to: .inTransit, by: step, on: event)
        case .enteredMerchantZone: move(to: .atMerchant, by: step, on: event)
        default: break
        }
    }

    /// Sets the members that change with the state, by destination.
    private mutating func move(to destination: JourneyState, by name: EventName, on event: OrderedEvent) {
        switch (name, destination) {
        case (.reset, _):
            reset()
        case (_, .sessionEnded):
            end(by: name)
        case (.enteredChargerIntentZone, _):
            targetChargerID = event.chargerID ?? targetChargerID
        case (_, .sessionActive):
            sessionID = event.sessionID
            hardDeadline = event.occurredAt.advanced(bySeconds: event.hardTimeoutSeconds)
        case (_, .inTransit):
            graceDeadline = event.occurredAt.advanced(bySeconds: event.gracePeriodSeconds)
        case (_, .atMerchant):
            graceDeadline = nil
        default:
            break
        }
        state = destination
    }

    /// chargerTargeted names this journey's charger before one is reached, and the next journey's charger after the
    /// end. One without a `charger_id` has no effect.
    private mutating func setTarget(_ event: OrderedEvent) {
        guard event.name == .chargerTargeted, let chargerID = event.chargerID else { return }
        switch state {
        case .idle, .nearCharger: targetChargerID = chargerID
        case .sessionEnded: nextTargetChargerID = chargerID
        case .anchored, .sessionActive, .inTransit, .atMerchant: break
        }
    }

    /// No deadline runs in an ended session; its id remains until the reset.
    mutating func end(by name: EventName) {
        state = .sessionEnded
        graceDeadline = nil
        hardDeadline = nil
        endedBy =
            switch name {
            case .visitVerifiedByWeb: .verified
            case .gracePeriodExpired: .grace
            case .hardTimeoutExpired: .hardTimeout
            default: .requested
            }
    }

    /// Starts a fresh journey, from SESSION_ENDED or from a journey that is abandoned.
    private mutating func reset() {
        self = Journey(targetChargerID: nextTargetChargerID, previousSessionID: sessionID ?? previousSessionID)
    }
}

/// Folds more than one event.
public enum Fold {
    /// Changes whenever the same events may fold to a different journey than in the release before; stored journeys
    /// are then refolded. Version 1 had neither evidence nor an order within a second.
    public static let rulesVersion: Int64 = 2

    /// Returns a driver's events in the order in which the fold applies them.
    ///
    /// - Parameter events: in order of arrival.
    public static func inOrder(_ events: [OrderedEvent], from start: Journey = Journey()) -> [OrderedEvent] {
        // Where `<` does not decide, events are sorted by arrival; the order within a second is derived from that.
        let sorted = events.indices.sorted { one, other in
            if events[one].sharesSecond(with: events[other]) { return one < other }
            return events[one] < events[other]
        }.map { events[$0] }
        var ordered: [OrderedEvent] = []
        ordered.reserveCapacity(sorted.count)
        var journey = start
        var index = sorted.startIndex
        while index < sorted.endIndex {
            let rest = sorted[index...]
            let second = Array(rest.prefix { $0.sharesSecond(with: rest[index]) })
            if second.count > 1 {
                var before = journey
                while before.takeDeadline(before: second[0]) != nil {}
                ordered += OrderWithinSecond.order(of: second, from: before).map { second[$0] }
            } else {
                ordered.append(sorted[index])
            }
            index += max(second.count, 1)
            for event in ordered.suffix(max(second.count, 1)) { _ = journey.apply(event) }
        }
        return ordered
    }

    /// Returns the verdict on and the journey after each of `events`, which must be in the order of the fold
    /// (`inOrder`), starting from the journey before the first of them.
    public static func replay(
        _ events: some Sequence<OrderedEvent>, from start: Journey = Journey()
    ) -> [(verdict: Verdict, journey: Journey)] {
        var journey = start
        return events.map { event in
            let verdict = journey.apply(event)
            return (verdict, journey)
        }
    }
}
