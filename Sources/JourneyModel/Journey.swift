/// A driver's state in the fold after an event: everything that the next event's verdict depends on.
public struct Journey: Hashable, Sendable {
    /// Why a session, or a journey before its session, is over. Raw values are the wire's spelling.
    public enum Ending: String, Hashable, Sendable, CaseIterable {
        case verified
        case grace
        case hardTimeout = "hard_timeout"
        case requested
        /// Another session of the same driver began.
        case superseded
        /// The phone started its next journey without reporting how this one ended.
        case reset
    }

    public var state: JourneyState
    /// The session in progress, or in SESSION_ENDED the one that ended; nil before a session begins.
    public var sessionID: String?
    /// The charger of this journey (`charger_id` of the latest chargerTargeted, or of the event that entered the zone).
    public var targetChargerID: String?
    /// Set by chargerTargeted in SESSION_ENDED; becomes `targetChargerID` at the reset.
    public var nextTargetChargerID: String?
    /// Runs in IN_TRANSIT only.
    public var graceDeadline: Moment?
    /// Runs in SESSION_ACTIVE, IN_TRANSIT and AT_MERCHANT.
    public var hardDeadline: Moment?
    /// Why the session ended; set in SESSION_ENDED only. Nil in SESSION_ENDED if retention deleted the event that
    /// ended the session before this member existed. Never `superseded` or `reset`: a session with such an ending is
    /// not followed by SESSION_ENDED.
    public var endedBy: Ending?
    /// The driver's session before `sessionID`. It is over: its events neither restart it nor move another session.
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

    /// Compares ids by their bytes, so that a refold stops exactly where its journey is identical to the stored one.
    public static func == (one: Journey, other: Journey) -> Bool {
        one.state == other.state && one.graceDeadline == other.graceDeadline && one.hardDeadline == other.hardDeadline
            && one.endedBy == other.endedBy && haveSameBytes(one.sessionID, other.sessionID)
            && haveSameBytes(one.targetChargerID, other.targetChargerID)
            && haveSameBytes(one.nextTargetChargerID, other.nextTargetChargerID)
            && haveSameBytes(one.previousSessionID, other.previousSessionID)
    }
}

extension Journey {
    /// Returns why this journey's session in progress is over in `next`, the journey after the next event, if the
    /// session ended without SESSION_ENDED. Nil if it is not over, or if `next` is in SESSION_ENDED.
    public func closing(by next: Journey) -> Ending? {
        guard state.hasSessionInProgress, !haveSameBytes(sessionID, next.sessionID) else { return nil }
        return next.sessionID == nil ? .reset : .superseded
    }
}
