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
    public mutating func apply(_ event: PlacedEvent) -> Verdict {
        while takeDeadline(before: event) != nil {}
        switch event.origin {
        case .server: return applyExpiry(event)
        case .client: return applyClientEvent(event)
        }
    }

    /// The expiry of this journey's running deadline, if it is the one; ends the session.
    private mutating func applyExpiry(_ event: PlacedEvent) -> Verdict {
        guard let deadline = nextDeadline, deadline.name == event.name, deadline.at == event.occurredAt,
            haveSameBytes(event.sessionID, sessionID)
        else { return .none }
        end()
        return .applied
    }

    private mutating func applyClientEvent(_ event: PlacedEvent) -> Verdict {
        let transition = Transition(from: state, on: event.name)
        if transition == .stays {
            setTarget(event)
            return .none
        }
        if state.hasSessionInProgress, let eventSessionID = event.sessionID,
            !haveSameBytes(eventSessionID, sessionID)
        {
            return .rejected(.noSuchTransition)
        }
        switch transition {
        case .stays: return .none
        case .rejected(let reason): return .rejected(reason)
        case .to(let destination):
            move(to: destination, on: event)
            return .applied
        case .resetThenTo(let destination):
            reset()
            move(to: destination, on: event)
            return Verdict(.applied, impliesReset: true)
        }
    }

    /// What a transition sets beside the state, by where it leads.
    private mutating func move(to destination: JourneyState, on event: PlacedEvent) {
        switch (state, destination) {
        case (.sessionEnded, .idle):
            reset()
        case (_, .sessionEnded):
            end()
        case (.idle, .nearCharger):
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
    private mutating func setTarget(_ event: PlacedEvent) {
        guard event.name == .chargerTargeted, let chargerID = event.chargerID else { return }
        switch state {
        case .idle, .nearCharger: targetChargerID = chargerID
        case .sessionEnded: nextTargetChargerID = chargerID
        case .anchored, .sessionActive, .inTransit, .atMerchant: break
        }
    }

    /// No deadline runs in an ended session; its id stays until the reset.
    mutating func end() {
        state = .sessionEnded
        graceDeadline = nil
        hardDeadline = nil
    }

    /// From SESSION_ENDED to a fresh journey.
    private mutating func reset() {
        self = Journey(targetChargerID: nextTargetChargerID)
    }
}

/// Folding more than one event.
public enum Fold {
    /// The verdict and the journey after each of `events`, which are sorted by `<`, starting from the journey
    /// after the event before the first of them.
    public static func replay(
        _ events: some Sequence<PlacedEvent>, from start: Journey = Journey()
    ) -> [(verdict: Verdict, journey: Journey)] {
        var journey = start
        return events.map { event in
            let verdict = journey.apply(event)
            return (verdict, journey)
        }
    }
}
