// The inputs and outputs of the session engine.

public import JourneyModel

/// An input of the engine: something that happened.
public enum EngineInput: Hashable, Sendable {
    /// The driver chose a charger, or arrived at a charger that the app knows. In ANCHORED, the choice takes effect
    /// when the phone leaves the present charger. During a session, it takes effect for the next session.
    case targeted(Place)
    /// Fixes that were delivered together, in any order. The engine handles each fix with the time at which it was
    /// taken.
    case fixes([LocationFix])
    case crossed(GeofenceCrossing)
    /// A timer of the engine fired. The input is harmless even if the timer fires early or late, or was never set.
    ///
    /// If the operating system wakes the app, and the app has nothing else to report, it passes this input, so that the
    /// engine reports the deadlines that have passed.
    case timerFired(EngineTimer)
    /// The web opened the session at that merchant.
    case activated(sessionID: Identifier, merchant: Place)
    /// The web refused to open a session. `reason` is the web's text. The engine uses at most 128 characters of this
    /// text.
    case activationRejected(reason: String)
    case visitVerified(sessionID: Identifier)
    case endRequested(sessionID: Identifier)
    /// The driver dismissed the ended session, so the state returns to IDLE. The app need not pass this input, because
    /// the next arrival at a charger implies the reset.
    case resetRequested
    /// New settings were fetched. Running deadlines do not change (contract, section 1).
    case settings(Settings)
}

/// An output of the engine: something that the app must do.
public enum EngineOutput: Hashable, Sendable {
    /// Enqueue this event. This output comes before the `transition` that the event causes.
    case send(EventDraft)
    /// The state has changed. The app may show the new state on a screen or in the web.
    case transition(Transition)
    /// A command of the web or of the driver was rejected, for the given reason. The state does not change.
    case refused(EventName, Verdict.Reason)
    /// Set a timer that reports `timerFired` at this time. The new timer replaces an earlier timer of the same name.
    case setTimer(EngineTimer, at: Moment)
    case cancelTimer(EngineTimer)
    /// Monitor exactly these geofences instead of all previous geofences. There are at most two.
    case monitor([Geofence])
    /// Request one fix, as accurate as possible, from the location receiver. Pass it to the engine as the input
    /// `fixes`.
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

/// The engine's timers. If the app is suspended, a timer may not fire. If a deadline has passed in the meantime, the
/// engine reports it at the next input, with the time of the deadline.
public enum EngineTimer: String, Hashable, Sendable, CaseIterable {
    /// When this timer fires, the engine requests a fix, because only a fix can begin or complete a dwell. The engine
    /// repeats the request, with growing pauses:
    ///
    /// - After the phone has arrived in the anchor zone: until a fix begins a stay or shows that the phone is
    ///   elsewhere.
    /// - After a stay has lasted for the dwell time: until a fix completes the dwell or ends the stay.
    case dwell
    case gracePeriod = "grace_period"
    case hardTimeout = "hard_timeout"
}
