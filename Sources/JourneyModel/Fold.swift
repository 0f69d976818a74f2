// The fold: a journey is what its events make of it, one after another in the contract's order (EventOrder.swift).
// It asks no clock and stores nothing; deadlines pass because an event, or `now`, lies after them.
//
// A deadline has a place in the same order as the events: that of the expiry which the server stores for it.
// Whether that expiry is stored already or not therefore changes no verdict and no state, and a stored expiry
// whose deadline was moved or cleared by a late event finds nothing to end.

extension Journey {
    /// Takes one event at its place in the order: first the deadlines that lie before it, then the event.
    ///
    /// An event of `origin` server ends the session exactly when it is the expiry of a deadline that is running
    /// now, at that millisecond and for that session. Otherwise its verdict is `.none`.
    ///
    /// The journey afterwards and the verdict depend on nothing but this journey and the event. So when a refold
    /// arrives at the journey that was stored after the same event before, all that follows stays as it was, and
    /// the refold may stop there.
    public mutating func apply(_ event: OrderedEvent) -> Verdict {
        while takeDeadline(before: event) != nil {}
        switch event.origin {
        case .server: return applyExpiry(event)
        case .client: return applyClientEvent(event)
        }
    }

    /// The expiry of this journey's running deadline, if it is the one; ends the session.
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

    /// An implied step happened at the time of the event that proves it: that is the latest it can have happened, so a
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

    /// What a transition sets beside the state, by where it leads.
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

    /// chargerTargeted names this journey's charger while none is reached yet, and the next journey's after the
    /// end. One without a `charger_id` names nothing.
    private mutating func setTarget(_ event: OrderedEvent) {
        guard event.name == .chargerTargeted, let chargerID = event.chargerID else { return }
        switch state {
        case .idle, .nearCharger: targetChargerID = chargerID
        case .sessionEnded: nextTargetChargerID = chargerID
        case .anchored, .sessionActive, .inTransit, .atMerchant: break
        }
    }

    /// No deadline runs in an ended session; its id stays until the reset.
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

    /// To a fresh journey, from SESSION_ENDED or from one that is given up.
    private mutating func reset() {
        self = Journey(targetChargerID: nextTargetChargerID, previousSessionID: sessionID ?? previousSessionID)
    }
}

/// Folding more than one event.
public enum Fold {
    /// Another number whenever the same events may fold to another journey than with the release before: then stored
    /// journeys are folded again. 1 knew neither evidence nor an order within a second.
    public static let rulesVersion: Int64 = 2

    /// A driver's events in the order in which the fold takes them.
    ///
    /// - Parameter events: in the order of arrival.
    public static func inOrder(_ events: [OrderedEvent], from start: Journey = Journey()) -> [OrderedEvent] {
        // Sorted by the order of arrival where `<` does not decide: places within a second come from that.
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

    /// The verdict and the journey after each of `events`, which are in the order of the fold (`inOrder`), starting from
    /// the journey after the event before the first of them.
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
