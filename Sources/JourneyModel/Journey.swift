/// A driver's journey after an event. The journey and the next event alone determine the verdict on that event (the
/// fold's result).
public struct Journey: Hashable, Sendable {
    /// The reason why a session, or a journey without a session, ended. Raw values are the spelling on the wire.
    public enum Ending: String, Hashable, Sendable, CaseIterable {
        case verified
        case grace
        case hardTimeout = "hard_timeout"
        case requested
        /// Another session of the same driver began.
        case superseded
        /// The phone started its next journey without reporting how this journey ended.
        case reset
    }

    public var state: JourneyState
    /// The id of the session in progress. In SESSION_ENDED, the id of the session that ended. Nil if this journey has
    /// no session.
    public var sessionID: String?
    /// The charger of this journey. It is set by chargerTargeted and enteredChargerIntentZone, if the event has a
    /// `charger_id`.
    public var targetChargerID: String?
    /// The charger of the next journey. It is set by chargerTargeted in SESSION_ENDED, and becomes `targetChargerID` at
    /// the reset.
    public var nextTargetChargerID: String?
    /// The end of the grace period. The grace period runs only in IN_TRANSIT.
    public var graceDeadline: Moment?
    /// The time of the hard timeout. The hard timeout runs in SESSION_ACTIVE, IN_TRANSIT and AT_MERCHANT.
    public var hardDeadline: Moment?
    /// The reason why the journey ended; nil in every state except SESSION_ENDED. The value is never `superseded` or
    /// `reset`, because a journey with one of these endings never reaches SESSION_ENDED.
    ///
    /// In SESSION_ENDED, the value is nil only for an old journey: an early version of the server stored it without the
    /// reason, and retention has since deleted the event that ended it.
    public var endedBy: Ending?
    /// The driver's previous session. It is remembered, so that late events of this session cannot restart it, change
    /// another session or end a journey without a session. Older sessions are not remembered.
    public var previousSessionID: String?

    public init(
        state: JourneyState = .idle, sessionID: String? = nil, targetChargerID: String? = nil,
        nextTargetChargerID: String? = nil, graceDeadline: Moment? = nil, hardDeadline: Moment? = nil,
        endedBy: Ending? = nil, previousSessionID: String? = nil
    ) {
        self.state = state
        self.sessionID = sessionID
        self.targetChargerID = targetChargerID
        self.nextTargetChargerID = nextTargetChargerID
        self.graceDeadline = graceDeadline
        self.hardDeadline = hardDeadline
        self.endedBy = endedBy
        self.previousSessionID = previousSessionID
    }

    /// Compares ids by their bytes, so that a refold stops only where its journey is identical to the stored journey.
    public static func == (one: Journey, other: Journey) -> Bool {
        one.state == other.state && one.graceDeadline == other.graceDeadline && one.hardDeadline == other.hardDeadline
            && one.endedBy == other.endedBy && haveSameBytes(one.sessionID, other.sessionID)
            && haveSameBytes(one.targetChargerID, other.targetChargerID)
            && haveSameBytes(one.nextTargetChargerID, other.nextTargetChargerID)
            && haveSameBytes(one.previousSessionID, other.previousSessionID)
    }
}

extension Journey {
    /// Returns the ending of this journey's session if an event closed the session in progress, by a reset or by the
    /// beginning of another session. `next` is the journey after the event. The ending is `reset` if `next` has no
    /// session, and `superseded` if `next` has another session.
    ///
    /// Returns nil if this journey has no session in progress, or if `next` still has this session.
    public func closing(by next: Journey) -> Ending? {
        guard state.hasSessionInProgress, !haveSameBytes(sessionID, next.sessionID) else { return nil }
        return next.sessionID == nil ? .reset : .superseded
    }
}
