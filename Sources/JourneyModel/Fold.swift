// The fold makes a journey from events by applying them one after another in the contract's order (EventOrder.swift).
// It reads no clock and stores nothing. It applies a deadline when the next event, or the argument `now`, is later than
// the deadline.
//
// In the order, a deadline has the same position as its expiry event. Storing the expiry therefore changes no verdict
// and no state. If a late event moves or clears the deadline, the stored expiry has no effect.

extension Journey {
    /// Applies the deadlines before the event, and then the event itself. The events must be applied in their order.
    ///
    /// The results depend only on this journey and the event. A refold may therefore stop as soon as its journey equals
    /// the stored journey after the same event.
    public mutating func apply(_ event: OrderedEvent) -> Verdict {
        while takeDeadline(before: event) != nil {}
        switch event.origin {
        case .server: return applyExpiry(event)
        case .client: return applyClientEvent(event)
        }
    }

    /// Ends the session if the event is the expiry event of the running deadline. Any other expiry event has no effect.
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

    /// Applies an implied step at the time of the event that proves the step. The step happened at that time or
    /// earlier. A deadline that the step starts is therefore never too early.
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

    private mutating func setTarget(_ event: OrderedEvent) {
        guard event.name == .chargerTargeted, let chargerID = event.chargerID else { return }
        switch state {
        case .idle, .nearCharger: targetChargerID = chargerID
        case .sessionEnded: nextTargetChargerID = chargerID
        case .anchored, .sessionActive, .inTransit, .atMerchant: break
        }
    }

    /// Ends the journey. The session id remains until the reset.
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

    /// Starts a new journey, even if the present one has not ended.
    private mutating func reset() {
        self = Journey(targetChargerID: nextTargetChargerID, previousSessionID: sessionID ?? previousSessionID)
    }
}

/// Folds more than one event.
public enum Fold {
    /// The version of the fold's rules. It increases in every release whose rules can make another journey from the
    /// same events. After such a release, the server refolds the stored journeys.
    public static let rulesVersion: Int64 = 4

    /// Returns a driver's events in the order in which the fold applies them.
    ///
    /// - Parameter events: in order of arrival.
    public static func inOrder(_ events: [OrderedEvent], from start: Journey = Journey()) -> [OrderedEvent] {
        // Events that share a second keep their order of arrival here, because OrderWithinSecond requires that order.
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

    /// Returns the verdict on each event, and the journey after that event. `events` must be in the order of `inOrder`.
    /// `start` is the journey before the first event.
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
