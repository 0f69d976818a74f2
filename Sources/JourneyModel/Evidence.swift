// How a phone's report of its own state extends the table of transitions (contract, section 1, "What is implied").
// Shipped clients send in `metadata.previous_state` the state from which they made a transition. If the server is
// behind that state, events are missing, and the steps to it are proven. Knows no order and no deadlines.

extension Journey {
    /// The effect of an event in this journey: the missing steps that it proves, then its own transition.
    struct Course: Hashable {
        var implied: ImpliedSteps
        var transition: Transition

        init(_ transition: Transition, after implied: ImpliedSteps = []) {
            self.implied = implied
            self.transition = transition
        }
    }

    func course(of event: OrderedEvent) -> Course {
        let direct = Transition(from: state, on: event.name)
        if direct == .stays { return Course(.stays) }
        if state.hasSessionInProgress {
            if let eventSessionID = event.sessionID, !haveSameBytes(eventSessionID, sessionID) {
                return courseOfOtherSession(event)
            }
            // An event that ends a session names it; without a session id it ends a journey that has no session
            // yet.
            if event.sessionID == nil, event.name == .webRequestedEnd { return Course(.rejected(.noSuchTransition)) }
        } else if isOver(event.sessionID) {
            return Course(direct)
        }
        return provenCourse(of: event) ?? Course(direct)
    }

    /// Nil when the event gives no evidence, or none that is new.
    private func provenCourse(of event: OrderedEvent) -> Course? {
        guard let evidence = event.evidence, evidence != state else { return nil }
        if evidence == .sessionEnded {
            // The end was lost, and its kind cannot be known: the next journey begins with a reset.
            return state == .idle ? nil : Course(Transition(from: evidence, on: event.name))
        }
        guard let path = ImpliedSteps.path(from: state, to: evidence) else { return nil }
        return Course(Transition(from: evidence, on: event.name), after: path)
    }

    /// A session in progress is closed when another one begins, and by an event that only happens within another
    /// one. The end of another session ends nothing: it may be an old timer.
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
        Course(
            Transition(from: evidence, on: event.name),
            after: ImpliedSteps.path(from: .sessionEnded, to: evidence) ?? [])
    }

    /// An ended session is not restarted by a phone's report.
    private func isOver(_ eventSessionID: String?) -> Bool {
        guard let eventSessionID else { return false }
        return haveSameBytes(eventSessionID, previousSessionID)
            || state == .sessionEnded && haveSameBytes(eventSessionID, sessionID)
    }
}

extension OrderedEvent {
    /// `previousState` if the table has a transition of this event from it; a state within a session counts only
    /// for an event that names a session.
    var evidence: JourneyState? {
        guard let previousState, case .to = Transition(from: previousState, on: name) else { return nil }
        return previousState.hasSessionInProgress && sessionID == nil ? nil : previousState
    }
}
