/// The state of a driver's journey after an event: everything on which the verdict on the next event (the result of the
/// fold) depends.
public struct Journey: Hashable, Sendable {
    /// The reason why a session, or a journey without a session, is over. Raw values are the spelling on the wire.
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
    /// The charger of this journey (`charger_id` of the latest chargerTargeted, or of the event that entered the zone).
    public var targetChargerID: String?
    /// The charger of the next journey. It is set by chargerTargeted in SESSION_ENDED, and becomes `targetChargerID` at
    /// the reset.
    public var nextTargetChargerID: String?
    /// The end of the grace period. The grace period runs in IN_TRANSIT only.
    public var graceDeadline: Moment?
    /// The time of the hard timeout. The hard timeout runs in SESSION_ACTIVE, IN_TRANSIT and AT_MERCHANT.
    public var hardDeadline: Moment?
    /// Why the session ended. Nil in every state except SESSION_ENDED. In SESSION_ENDED, it is nil only if two things
    /// happened: the session ended under an earlier version of the server, which did not store the reason, and
    /// retention has since deleted the event that ended the session. It is never `superseded` or `reset`, because a
    /// session that ends in one of these ways does not reach SESSION_ENDED.
    public var endedBy: Ending?
    /// The driver's session before `sessionID`. That session is over. Its events do not restart it, do not change
    /// another session, and do not end a journey that has no session yet. Earlier sessions are not remembered.
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
    /// Returns how the next event closed this journey's session without SESSION_ENDED: `.superseded` if `next` has
    /// another session, `.reset` if it has none. `next` is the journey after that event. Returns nil if no session was
    /// in progress, or if `next` still has the same session, in progress or ended.
    public func closing(by next: Journey) -> Ending? {
        guard state.hasSessionInProgress, !haveSameBytes(sessionID, next.sessionID) else { return nil }
        return next.sessionID == nil ? .reset : .superseded
    }
}
