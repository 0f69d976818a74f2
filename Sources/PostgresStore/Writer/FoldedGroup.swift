// The result of BatchFold for one driver.

import Engine
import JourneyModel
import RateLimiting

/// The outcomes of one driver's work in a batch, and the rows to write.
struct FoldedGroup: Sendable {
    /// One outcome for each work, in order. If works at the end are left to another batch, they have no outcome.
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
    /// Whether a session was registered. The driver may then have too many unused sessions, of which the oldest are
    /// deleted.
    var hasRegistered = false
    var charges: [(claim: AdmissionClaim, rowCount: Int)] = []
    /// Whether the refold for a late event is charged to a rate limit. If so, the works after this event are left to
    /// another batch. The charge is made before that batch, so the rate limit may refuse late events among those works.
    var isCharged = false
    /// Whether the remaining works are left to another batch. There are three reasons:
    ///
    /// - The next work needs stored events that were not read.
    /// - The next work follows a refold in parts.
    /// - The driver must be refolded before the next work, which is not the group's first work.
    ///
    /// Stored events are read only for the first work of a group. If each work had its own read, these reads could
    /// replace each other again and again. No work would then ever be stored.
    var isLeft = false
    /// What must be read before the group can be folded. If this is not empty, the other properties are meaningless.
    var need = BatchNeed()
    /// Whether another transaction was committed between the reads, so that they are inconsistent. If so, nothing is
    /// written or answered.
    var isStale = false
    /// Whether the group must be run as a batch of its own, under a lock. If so, nothing is written or answered.
    var mustBeAlone = false
    /// Only with `mustBeAlone`: whether that batch must be long (`Work.isLong`).
    var mustBeLong = false

    /// Whether this batch also folds the driver's next work.
    var takesMore: Bool { !isStale && !isCharged && !isLeft && need.isNothing }

    /// Returns whether the outcomes are valid after the batch has updated the drivers in `drivers`. If the group's
    /// driver had to be updated, the outcomes are valid only if `drivers` contains it.
    func isDone(afterMoving drivers: Set<Int64>) -> Bool {
        !mustBeAlone && !isStale && (moved.map { drivers.contains($0.row.id) } ?? true)
    }
}
