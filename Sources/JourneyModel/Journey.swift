/// What the fold knows of a driver after an event: all that the next event's verdict depends on.
public struct Journey: Hashable, Sendable {
    public var state: JourneyState
    /// The session in progress, or in SESSION_ENDED the one that ended; nil before a session began.
    public var sessionID: String?
    /// The charger of this journey (`charger_id` of the latest chargerTargeted, or of the event that entered the zone).
    public var targetChargerID: String?
    /// Set by chargerTargeted in SESSION_ENDED; becomes `targetChargerID` at the reset.
    public var nextTargetChargerID: String?
    /// Runs in IN_TRANSIT only.
    public var graceDeadline: Moment?
    /// Runs in SESSION_ACTIVE, IN_TRANSIT and AT_MERCHANT.
    public var hardDeadline: Moment?

    public init(
        state: JourneyState = .idle, sessionID: String? = nil, targetChargerID: String? = nil,
        nextTargetChargerID: String? = nil, graceDeadline: Moment? = nil, hardDeadline: Moment? = nil
    ) {
        self.state = state
        self.sessionID = sessionID
        self.targetChargerID = targetChargerID
        self.nextTargetChargerID = nextTargetChargerID
        self.graceDeadline = graceDeadline
        self.hardDeadline = hardDeadline
    }

    /// Equal to the byte, so that a refold stops exactly where the stored journey is the same.
    public static func == (one: Journey, other: Journey) -> Bool {
        one.state == other.state && one.graceDeadline == other.graceDeadline && one.hardDeadline == other.hardDeadline
            && haveSameBytes(one.sessionID, other.sessionID)
            && haveSameBytes(one.targetChargerID, other.targetChargerID)
            && haveSameBytes(one.nextTargetChargerID, other.nextTargetChargerID)
    }
}
