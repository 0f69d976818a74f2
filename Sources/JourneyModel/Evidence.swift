// Determines the effect of an event from the table of transitions and from the phone's reported state (contract,
// section 1, "What is implied").
//
// With each event, a shipped client sends its state before the event (`metadata.previous_state`). If the server's
// journey is in a different state, the server lacks events. The client's state then proves the missing steps.

extension Journey {
    /// The effect of an event on this journey: first the missing steps that the event proves, then the event's own
    /// transition.
    struct Course: Hashable {
        var implied: ImpliedSteps
        var transition: Transition

        init(_ transition: Transition, after implied: ImpliedSteps = []) {
            self.implied = implied
            self.transition = transition
        }
    }

    func course(of event: OrderedEvent) -> Course {
        if event.isUnconfirmedClaim { return Course(.rejected(.unconfirmed)) }
        let direct = Transition(from: state, on: event.name)
        if direct == .stays { return Course(.stays) }
        if state.hasSessionInProgress {
            if let eventSessionID = event.sessionID, !haveSameBytes(eventSessionID, sessionID) {
                return courseOfOtherSession(event)
            }
            // A webRequestedEnd without a session id can only end a journey that has no session yet, so it is rejected
            // while a session is in progress.
            if event.sessionID == nil, event.name == .webRequestedEnd { return Course(.rejected(.noSuchTransition)) }
        } else if isOver(event.sessionID) {
            return courseOfEndedSession(event, direct)
        }
        return provenCourse(of: event, insteadOf: direct) ?? Course(direct)
    }

    /// Returns the effect of the event according to its evidence: the state that the phone reported with the event.
    /// Returns nil if the event has no evidence, or if its evidence proves no missing step.
    ///
    /// An app's evidence is not used if it claims an activation that only a service may confirm. Such an event has the
    /// effect `direct` if `direct` moves the state, and is rejected if it does not.
    private func provenCourse(of event: OrderedEvent, insteadOf direct: Transition) -> Course? {
        guard let evidence = event.evidence, evidence != state else { return nil }
        if evidence == .sessionEnded {
            // The phone reports that its session has ended. Without a session id, the event does not close a session in
            // progress, because it may come from the driver's other phone, where an older session has ended.
            if state == .idle || state.hasSessionInProgress && event.sessionID == nil { return nil }
            // No ending is implied, because the phone does not report which event ended its session. `event` has the
            // effect that it has in SESSION_ENDED.
            return Course(Transition(from: evidence, on: event.name))
        }
        guard let path = ImpliedSteps.path(from: state, to: evidence) else { return nil }
        if event.sender == .unconfirmedApp, path.contains(.exclusiveActivatedByWeb) {
            if case .to = direct { return nil }
            return Course(.rejected(.unconfirmed))
        }
        return Course(Transition(from: evidence, on: event.name), after: path)
    }

    /// Returns the effect of an event whose session is not the session in progress. If the event proves that its own
    /// session has begun, the session in progress is closed.
    ///
    /// An event that does not prove this is rejected, for example an expiry that the phone reports because of an old
    /// session's timer.
    private func courseOfOtherSession(_ event: OrderedEvent) -> Course {
        guard !isOver(event.sessionID) else { return Course(.rejected(.noSuchTransition)) }
        switch event.name {
        case .exclusiveActivatedByWeb:
            if event.previousState == .idle || event.previousState == .nearCharger {
                return Course(.rejected(.notAnchored))
            }
            return newSession(at: .anchored, event)
        case .departedCharger, .enteredMerchantZone, .visitVerifiedByWeb:
            guard let evidence = event.evidence else { return Course(.rejected(.noSuchTransition)) }
            return newSession(at: evidence, event)
        default:
            return Course(.rejected(.noSuchTransition))
        }
    }

    private func newSession(at evidence: JourneyState, _ event: OrderedEvent) -> Course {
        let path = ImpliedSteps.path(from: .sessionEnded, to: evidence) ?? []
        if event.sender == .unconfirmedApp, path.contains(.exclusiveActivatedByWeb) {
            return Course(.rejected(.unconfirmed))
        }
        return Course(Transition(from: evidence, on: event.name), after: path)
    }

    /// Returns the effect of an event whose session has ended, while no session is in progress. The event's evidence is
    /// not used.
    ///
    /// An activation is rejected if it would begin the ended session again. A webRequestedEnd is rejected if it would
    /// end the driver's next journey. Every other event has the effect of the table (`direct`).
    private func courseOfEndedSession(_ event: OrderedEvent, _ direct: Transition) -> Course {
        if case .to = direct, event.name == .exclusiveActivatedByWeb || event.name == .webRequestedEnd {
            return Course(.rejected(.noSuchTransition))
        }
        return Course(direct)
    }

    /// Returns whether the journey knows that this session has ended. It knows this of the driver's previous session
    /// and, in SESSION_ENDED, of its own session.
    package func isOver(_ eventSessionID: String?) -> Bool {
        guard let eventSessionID else { return false }
        return haveSameBytes(eventSessionID, previousSessionID)
            || state == .sessionEnded && haveSameBytes(eventSessionID, sessionID)
    }
}

extension OrderedEvent {
    /// Whether an app sent this event to confirm an activation or a visit, and only a service may do so.
    var isUnconfirmedClaim: Bool { sender == .unconfirmedApp && name.isConfirmation }

    /// `previousState`, if it can be evidence of missing steps; otherwise nil. It can be evidence if the table has a
    /// transition on this event from that state. If a session is in progress in that state, the event must also have a
    /// session id.
    var evidence: JourneyState? {
        guard let previousState, case .to = Transition(from: previousState, on: name) else { return nil }
        return previousState.hasSessionInProgress && sessionID == nil ? nil : previousState
    }
}
