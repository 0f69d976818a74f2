// The inputs and outputs of the session engine.

public import JourneyModel

/// An input: something that happened.
public enum EngineInput: Hashable, Sendable {
    /// The driver chose a charger, or arrived at one that the app knows.
    case targeted(Place)
    /// Fixes that were delivered together, in any order; each counts at the moment it was taken.
    case fixes([LocationFix])
    case crossed(GeofenceCrossing)
    /// A timer set by the engine has fired; firing early or late is harmless.
    case timerFired(EngineTimer)
    /// The web opened the session at that merchant.
    case activated(sessionID: Identifier, merchant: Place)
    /// The web refused to open a session; `reason` is the web's text, cut to 128 characters.
    case activationRejected(reason: String)
    case visitVerified(sessionID: Identifier)
    case endRequested(sessionID: Identifier)
    /// The driver dismissed the ended session: the state returns to IDLE. Optional, since arriving at a charger
    /// implies the reset.
    case resetRequested
    /// Newly fetched settings. Running deadlines do not change (contract, section 1).
    case settings(Settings)
}

/// An output: something to do.
public enum EngineOutput: Hashable, Sendable {
    /// Enqueue this event. This output comes before the `transition` that the event causes.
    case send(EventDraft)
    /// The state has changed; for display on a screen or the web.
    case transition(Transition)
    /// The table of transitions rejects a command in this state. The state does not change.
    case refused(EventName, Verdict.Reason)
    /// Set a timer that reports `timerFired` at this moment. It replaces an earlier timer of the same name.
    case setTimer(EngineTimer, at: Moment)
    case cancelTimer(EngineTimer)
    /// Monitor exactly these geofences, instead of all previous ones. At most two.
    case monitor([Geofence])
    /// Request one fix from the receiver, as accurate as possible, and report it.
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

/// The engine's timers. A suspended app may miss timers: a missed deadline is processed at the next input, with the
/// deadline's own time.
public enum EngineTimer: String, Hashable, Sendable, CaseIterable {
    /// The dwell is due: a fix is needed to complete it.
    case dwell
    case gracePeriod = "grace_period"
    case hardTimeout = "hard_timeout"
}
