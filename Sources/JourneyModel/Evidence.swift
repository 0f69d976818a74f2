// What a phone's word about its own state adds to the table of transitions (contract, section 1, "What is implied").
// Shipped clients say in `metadata.previous_state` from which state they made a transition. Where the server is behind
// that state, events are missing, and the way there is proven. It knows no order and no deadlines.

extension Journey {
    /// What an event does here: the missing steps that it proves, then its own transition.
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
            // Whoever ends a session names it; without a name it is a journey before its session that is ended.
            if event.sessionID == nil, event.name == .webRequestedEnd { return Course(.rejected(.noSuchTransition)) }
        } else if isOver(event.sessionID) {
            return Course(direct)
        }
        return provenCourse(of: event) ?? Course(direct)
    }

    /// Nil when the event gives no evidence, or says nothing that is not known.
    private func provenCourse(of event: OrderedEvent) -> Course? {
        guard let evidence = event.evidence, evidence != state else { return nil }
        if evidence == .sessionEnded {
            // The end was lost, and nobody can say which it was: the next journey begins with a reset.
            return state == .idle ? nil : Course(Transition(from: evidence, on: event.name))
        }
        guard let path = ImpliedSteps.path(from: state, to: evidence) else { return nil }
        return Course(Transition(from: evidence, on: event.name), after: path)
    }

    /// A session in progress is closed by the beginning of another one, and by what only happens within another one.
    /// The end of another session ends nothing: it may be yesterday's timer.
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

    /// A session that has ended is not begun again by what a phone says of it.
    private func isOver(_ eventSessionID: String?) -> Bool {
        guard let eventSessionID else { return false }
        return haveSameBytes(eventSessionID, previousSessionID)
            || state == .sessionEnded && haveSameBytes(eventSessionID, sessionID)
    }
}

extension OrderedEvent {
    /// `previousState` where the table has a transition of this event from it; within a session only for an event that
    /// names one.
    var evidence: JourneyState? {
        guard let previousState, case .to = Transition(from: previousState, on: name) else { return nil }
        return previousState.hasSessionInProgress && sessionID == nil ? nil : previousState
    }
}
