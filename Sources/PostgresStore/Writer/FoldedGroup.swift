// The result of BatchFold for one driver.

import Engine
import JourneyModel
import RateLimiting

/// What a batch makes of one driver's work.
struct FoldedGroup: Sendable {
    /// One for each work, in order. The last works have none if they are left to another batch.
    var outcomes: [WorkOutcome] = []
    /// Nil if there is nothing to write.
    var moved: MovedDriver?
    var createdAt: Moment?
    /// The keyed hash of a new driver's id.
    var creatingDigest: [UInt8]?
    var added: [FoldedEvent] = []
    var refolded: [FoldedEvent] = []
    /// Stored events whose settings a correction has replaced.
    var corrected: [FoldedEvent] = []
    var sessions: [SessionRow] = []
    var claims: [SessionClaim] = []
    /// The settings of the added events.
    var settings: [String: (settings: VersionedSettings, at: Moment)] = [:]
    /// Whether a session was registered, so that unused ones may have to go.
    var hasRegistered = false
    var charges: [(claim: AdmissionClaim, rowCount: Int)] = []
    /// Whether an event was folded whose refold costs a charge. The charge is made when this event is stored, and it
    /// decides about the next late event. Therefore the works after this event are left to another batch.
    var isCharged = false
    /// Whether the next event is to be put among stored events that are not read. The works from it on are left to
    /// another batch. Events are read only for the first work of a group. Otherwise two works could each need other
    /// events, and neither would ever be stored.
    var isLeft = false
    /// What must be read before the group can be folded. The rest of this value then means nothing.
    var need = BatchNeed()
    /// Whether the reads do not fit together, because another transaction was committed between them. Nothing is then
    /// written or answered.
    var isStale = false
    /// Whether the group must be run as a batch of its own, under a lock. Nothing is then written or answered.
    var mustBeAlone = false

    /// Whether the next work of the driver is folded in this batch.
    var takesMore: Bool { !isStale && !isCharged && !isLeft && need.isNothing }
}
