// Extends the table of transitions by what phones report about their own state (contract, section 1, "What is
// implied"). Shipped clients send their state before the event in `metadata.previous_state`. If the server's journey is
// in another state, events are missing. The sent state then proves the steps from the journey's state to the sent
// state. This file handles neither the order of events nor deadlines.

extension Journey {
    /// The effect of an event on this journey. The effect has two parts: the missing steps that the event proves, and
    /// then the event's own transition.
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
            // webRequestedEnd with a session id ends that session. Without a session id, it ends a journey that has no
            // session yet.
            if event.sessionID == nil, event.name == .webRequestedEnd { return Course(.rejected(.noSuchTransition)) }
        } else if isOver(event.sessionID) {
            return courseOfEndedSession(event, direct)
        }
        return provenCourse(of: event, insteadOf: direct) ?? Course(direct)
    }

    /// Returns the effect that the event has according to its evidence, the state that the phone reported with it.
    /// Returns nil if the event has no evidence, or if the evidence proves no missing step.
    ///
    /// The evidence (reported state) of an app may claim an activation that only a service may confirm. Such evidence
    /// is not used. If the event moves the state even without this evidence (`direct`), returns nil. Otherwise returns
    /// a rejection.
    private func provenCourse(of event: OrderedEvent, insteadOf direct: Transition) -> Course? {
        guard let evidence = event.evidence, evidence != state else { return nil }
        if evidence == .sessionEnded {
            // The phone's session had ended before `event`, but the phone does not report which event ended it. No
            // ending is therefore added as an implied step. `event` gets the effect that the table gives it in
            // SESSION_ENDED. For example, an entry into an intent zone begins the next journey, with a reset. An event
            // without a session id does not close a session in progress, because it may come from the driver's other
            // phone, whose last session is an older one.
            if state == .idle || state.hasSessionInProgress && event.sessionID == nil { return nil }
            return Course(Transition(from: evidence, on: event.name))
        }
        guard let path = ImpliedSteps.path(from: state, to: evidence) else { return nil }
        if event.sender == .unconfirmedApp, path.contains(.exclusiveActivatedByWeb) {
            if case .to = direct { return nil }
            return Course(.rejected(.unconfirmed))
        }
        return Course(Transition(from: evidence, on: event.name), after: path)
    }

    /// Returns the effect of an event whose session is not the session in progress. Two kinds of events prove that
    /// their own session has begun, and so can close the session in progress. The first kind is an activation. The
    /// second kind is a departure, an arrival or a verification that has evidence (a state reported by the phone).
    /// Every other event is rejected. For example, an event that only ends its own session may come from an old timer.
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

    /// Returns the effect of an event whose session has ended, while no session is in progress. The event's evidence
    /// (the state that the phone reported) is not used. The end of a session is final. The event must neither begin the
    /// session again nor end the driver's next journey. An activation or a webRequestedEnd that would move the state is
    /// therefore rejected. Every other event has the effect `direct`, the table's transition: neither a reset nor an
    /// event about the phone's position changes a session.
    private func courseOfEndedSession(_ event: OrderedEvent, _ direct: Transition) -> Course {
        if case .to = direct, event.name == .exclusiveActivatedByWeb || event.name == .webRequestedEnd {
            return Course(.rejected(.noSuchTransition))
        }
        return Course(direct)
    }

    /// Returns whether the event's session is known to have ended. This is true of the driver's previous session
    /// (`previousSessionID`). In SESSION_ENDED, it is also true of this journey's session.
    package func isOver(_ eventSessionID: String?) -> Bool {
        guard let eventSessionID else { return false }
        return haveSameBytes(eventSessionID, previousSessionID)
            || state == .sessionEnded && haveSameBytes(eventSessionID, sessionID)
    }
}

extension OrderedEvent {
    /// Whether the event is an app's own confirmation of an activation or a visit, which only a service may confirm.
    var isUnconfirmedClaim: Bool { sender == .unconfirmedApp && name.isConfirmation }

    /// Returns `previousState` if it is evidence of missing steps, and nil otherwise. It is evidence if the table has a
    /// transition on this event from that state. A state of a session in progress is evidence only if the event also
    /// has a session id.
    var evidence: JourneyState? {
        guard let previousState, case .to = Transition(from: previousState, on: name) else { return nil }
        return previousState.hasSessionInProgress && sessionID == nil ? nil : previousState
    }
}
