// Decides whether a driver must be refolded first, and which of the driver's works are then left to the next batch.

import Engine
import JourneyModel

extension BatchFold {
    /// Returns nil if the driver need not be refolded. Otherwise returns a result with `need`, or at first with
    /// `mustBeAlone`. The refold is by the rules of this release, or by the correction that the group begins with.
    ///
    /// All of the driver's events may have to be read. The driver gets a batch of its own, so that other drivers do not
    /// wait. The batch locks the driver's row, so that no other instance updates it meanwhile.
    func refold(of row: StoredDriver, _ group: DriverGroup) -> FoldedGroup? {
        let order = group.works.first?.refold
        guard row.needsRefold || order?.correction != nil else { return nil }
        var result = FoldedGroup()
        let isLong = row.lastSeq > Self.sharedTailMax
        guard group.isLong || group.needsLock && !isLong else {
            (result.mustBeAlone, result.mustBeLong) = (true, isLong)
            return result
        }
        let begin = row.floor ?? Moment(millisecondsSinceEpoch: .min)
        let from = row.needsRefold ? begin : max(begin, order?.correction?.from ?? begin)
        let change: RefoldInParts.SettingsChange? = order?.correction.map { correction in
            { event in correction.settings.apply(to: &event) }
        }
        result.need.refold = RefoldInParts(of: row, from: from, now: order?.now, change: change)
        return result
    }

    /// Returns the refold in parts that has inserted the group's first work, a late event, as long as this work has no
    /// outcome. Otherwise returns nil.
    func insertion(after outcomes: [WorkOutcome]) -> RefoldInParts? {
        guard let refolded = reads.refolded, refolded.isInsertion, outcomes.isEmpty else { return nil }
        return refolded
    }

    /// Returns whether the work is left to the next batch because of a refold in parts. The refold may have changed
    /// verdicts that were read before it, and the next batch reads them again.
    func isLeft(_ work: Work, after outcomes: [WorkOutcome]) -> Bool {
        reads.refolded != nil && work.refold == nil && insertion(after: outcomes) == nil
    }

    /// A correction is applied only if it is the first work of its group. Otherwise it is left to the next batch, in
    /// which it is the first.
    func refold(_ order: DriverRefold, _ result: inout FoldedGroup) {
        if order.correction != nil, !result.outcomes.isEmpty {
            result.isLeft = true
        } else {
            result.outcomes.append(.refold(reads.refolded?.counts ?? RefoldCounts()))
        }
    }
}
