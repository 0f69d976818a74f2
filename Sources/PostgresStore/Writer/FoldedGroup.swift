// The result of BatchFold for one driver.

import Engine
import JourneyModel
import RateLimiting

/// The outcomes of one driver's work in a batch, and the rows to write.
struct FoldedGroup: Sendable {
    /// One outcome for each work, in order. The last works may be left to another batch; these have no outcome.
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
    /// Whether a session was registered. If so, the driver may have too many unused sessions, and the oldest of these
    /// are deleted.
    var hasRegistered = false
    var charges: [(claim: AdmissionClaim, rowCount: Int)] = []
    /// Whether a late event was folded whose refold counts against a rate limit. If so, the works after this event are
    /// left to another batch. The refold is charged before that batch, so the limit may refuse the next late event.
    var isCharged = false
    /// Whether the next work and those after it are left to another batch. There are three reasons:
    ///
    /// - The work needs stored events that were not read.
    /// - The work follows a refold in parts.
    /// - The work is a correction, but not the group's first work.
    ///
    /// Stored events are read only for the first work of a group. Otherwise, the events read for one work could replace
    /// those read for another, again and again. The works would then never be stored.
    var isLeft = false
    /// What must be read before the group can be folded. If this is not empty, ignore the other properties.
    var need = BatchNeed()
    /// Whether the reads are inconsistent, because another transaction was committed between them. If so, nothing
    /// is written or answered.
    var isStale = false
    /// Whether the group must be run as a batch of its own, under a lock. If so, nothing is written or answered.
    var mustBeAlone = false
    /// Only with `mustBeAlone`: whether that batch must be long (`Work.isLong`).
    var mustBeLong = false

    /// Whether this batch also folds the driver's next work.
    var takesMore: Bool { !isStale && !isCharged && !isLeft && need.isNothing }

    /// Returns whether the outcomes are valid, after the batch has updated these drivers. If the group's driver had to
    /// be updated, it must be among these drivers.
    func isDone(afterMoving drivers: Set<Int64>) -> Bool {
        !mustBeAlone && !isStale && (moved.map { drivers.contains($0.row.id) } ?? true)
    }
}
