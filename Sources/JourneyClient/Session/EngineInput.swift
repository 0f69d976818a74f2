// What the session engine is told, and what it answers.

public import JourneyModel

/// Something that happened.
public enum EngineInput: Hashable, Sendable {
    /// The driver chose a charger, or arrived at one that the app knows.
    case targeted(Place)
    /// Fixes that were delivered together, in any order; each counts at the moment at which it was taken.
    case fixes([LocationFix])
    case crossed(GeofenceCrossing)
    /// A timer that the engine set has fired; early or late does no harm.
    case timerFired(EngineTimer)
    /// The web opened the session at that merchant.
    case activated(sessionID: Identifier, merchant: Place)
    /// The web refused to open one; `reason` is the web's word for why, cut to 128 characters.
    case activationRejected(reason: String)
    case visitVerified(sessionID: Identifier)
    case endRequested(sessionID: Identifier)
    /// The driver is done with the ended session: back to IDLE. Not needed: arriving at a charger implies it.
    case resetRequested
    /// Newly fetched settings. Deadlines that run stay as they are (contract, section 1).
    case settings(Settings)
}

/// Something to do.
public enum EngineOutput: Hashable, Sendable {
    /// Put this event into the queue. Comes before the `transition` that it causes.
    case send(EventDraft)
    /// The state has changed; what a screen or the web shows.
    case transition(Transition)
    /// A command that the table of transitions rejects here. The state stays.
    case refused(EventName, Verdict.Reason)
    /// Report `timerFired` at that moment. Replaces the timer of this name.
    case setTimer(EngineTimer, at: Moment)
    case cancelTimer(EngineTimer)
    /// Watch exactly these geofences, instead of all before. At most two.
    case monitor([Geofence])
    /// Ask the receiver for one fix as good as it can and report it.
    case requestFix

    public struct Transition: Hashable, Sendable {
        public var from: JourneyState
        public var to: JourneyState
        public var event: EventName
        public var at: Moment

        public init(from: JourneyState, to: JourneyState, event: EventName, at: Moment) {
            self.from = from
            self.to = to
            self.event = event
            self.at = at
        }
    }
}

/// The timers of the engine. An app that sleeps may let them lie: what was missed is caught up with at the next
/// input, and counts at the moment of its deadline.
public enum EngineTimer: String, Hashable, Sendable, CaseIterable {
    /// A fix is needed that completes the dwell.
    case dwell
    case gracePeriod = "grace_period"
    case hardTimeout = "hard_timeout"
}
