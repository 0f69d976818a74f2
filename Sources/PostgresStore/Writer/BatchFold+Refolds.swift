// Decides whether a driver must be refolded before the batch does the driver's work. Also decides which of the driver's
// works are left to the next batch after a refold.

import Engine
import JourneyModel

extension BatchFold {
    /// Returns nil if the driver need not be refolded. Otherwise returns a result with `mustBeAlone` or, once the group
    /// is alone in its batch, with `need`. The refold uses this release's rules, and applies the correction if that is
    /// the group's first work.
    ///
    /// A refold may have to read all of the driver's events. So the driver gets a batch of its own, and other drivers
    /// do not wait. The batch locks the driver's row, so that no other instance updates it meanwhile.
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

    /// A refold in parts may insert a late event, which is the group's first work. Until this work has an outcome,
    /// returns that refold. Otherwise returns nil.
    func insertion(after outcomes: [WorkOutcome]) -> RefoldInParts? {
        guard let refolded = reads.refolded, refolded.isInsertion, outcomes.isEmpty else { return nil }
        return refolded
    }

    /// Returns whether the work is left to the next batch because of a refold in parts. The reason is that verdicts
    /// were read before the refold, and the refold may have changed them. The next batch reads them again.
    func isLeft(_ work: Work, after outcomes: [WorkOutcome]) -> Bool {
        reads.refolded != nil && work.refold == nil && insertion(after: outcomes) == nil
    }

    /// A correction is applied only if it is the first work of its group. Otherwise it is left to the next batch, where
    /// it is the first work.
    func refold(_ order: DriverRefold, _ result: inout FoldedGroup) {
        if order.correction != nil, !result.outcomes.isEmpty {
            result.isLeft = true
        } else {
            result.outcomes.append(.refold(reads.refolded?.counts ?? RefoldCounts()))
        }
    }
}
