// The result of BatchFold for one driver.

import Engine
import JourneyModel
import RateLimiting

/// The outcomes of one driver's work in a batch, and the rows to write.
struct FoldedGroup: Sendable {
    /// One outcome for each work, in order. Works at the end that are left to another batch have none.
    var outcomes: [WorkOutcome] = []
    /// Nil if there is nothing to write.
    var moved: MovedDriver?
    var createdAt: Moment?
    /// The keyed hash of a new driver's id.
    var creatingDigest: [UInt8]?
    var added: [FoldedEvent] = []
    var refolded: [FoldedEvent] = []
    var sessions: [SessionRow] = []
    var claims: [SessionClaim] = []
    /// The settings of the added events.
    var settings: [String: (settings: VersionedSettings, at: Moment)] = [:]
    /// Whether a session was registered. The driver may then have too many unused sessions, and the oldest are deleted.
    var hasRegistered = false
    var charges: [(claim: AdmissionClaim, rowCount: Int)] = []
    /// Whether a late event was folded and its refold counts against a rate limit. The works after this event are then
    /// left to another batch. The refold is charged before that batch, and the limit may then refuse the next late
    /// event.
    var isCharged = false
    /// Whether the next work and those after it are left to another batch. There are three reasons:
    ///
    /// - The work needs stored events that were not read.
    /// - It follows a refold in parts.
    /// - It is a correction but not the first work.
    ///
    /// Only the first work of a group causes events to be read. If later works did so too, two works could replace each
    /// other's events again and again, and never be stored.
    var isLeft = false
    /// What must be read before the group can be folded. If this is not empty, ignore the other properties.
    var need = BatchNeed()
    /// Whether the reads are inconsistent, because another transaction was committed between them. Nothing is then
    /// written or answered.
    var isStale = false
    /// Whether the group must be run as a batch of its own, under a lock. Nothing is then written or answered.
    var mustBeAlone = false
    /// Only with `mustBeAlone`: whether that batch must be long (`Work.isLong`).
    var mustBeLong = false

    /// Whether this batch also folds the driver's next work.
    var takesMore: Bool { !isStale && !isCharged && !isLeft && need.isNothing }

    /// Returns whether the outcomes are valid after the batch has updated these drivers. The outcomes are not valid if
    /// the group's driver had to be updated and is not among these drivers.
    func isDone(afterMoving drivers: Set<Int64>) -> Bool {
        !mustBeAlone && !isStale && (moved.map { drivers.contains($0.row.id) } ?? true)
    }
}
