// Decides before which works a driver must be refolded. Also decides which works wait for the next batch because of a
// refold.

import Engine
import JourneyModel

extension BatchFold {
    /// Returns whether the driver must be refolded before the batch does this work. If so, a work that is not the
    /// group's first is left to the next batch (`FoldedGroup.isLeft`).
    ///
    /// An event that comes after the driver's stored head does not wait for a refold by new rules. It is folded onto
    /// the stored journey, and the refold folds it again. A repeat of a stored event and a registration do not wait
    /// either.
    func mustRefold(before work: Work, _ fold: DriverFold?) -> Bool {
        guard let fold, reads.refolded == nil else { return false }
        switch work.kind {
        case .refold(let order, _): return fold.row.needsRefold || order.correction != nil
        case .register: return false
        case .expire: return fold.row.needsRefold
        case .append(let append, _, _):
            guard fold.row.needsRefold, let headAt = fold.row.headCorrectedAt,
                ClockCorrection(append.request, memory: fold.row.clockMemory).corrected <= headAt
            else { return false }
            return storedKey(of: append) == nil && fold.added(underKey: append.request.submission.idempotencyKey) == nil
        }
    }

    /// Asks for the refold of the group's driver. If the group is not alone in its batch, the result asks for a batch
    /// of its own (`mustBeAlone`). If the group is alone, the result asks for the refold (`need`).
    ///
    /// A refold may have to read all of the driver's events. In a batch of its own, it delays no other driver. The
    /// batch locks the driver's row, so that no other instance updates it meanwhile.
    func refold(of row: StoredDriver, _ group: DriverGroup) -> FoldedGroup {
        let order = group.works.first?.refold
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

    /// Returns the refold in parts that inserts the group's first work, a late event. Returns nil if there is no such
    /// refold, or if the first work already has an outcome.
    func insertion(after outcomes: [WorkOutcome]) -> RefoldInParts? {
        guard let refolded = reads.refolded, refolded.isInsertion, outcomes.isEmpty else { return nil }
        return refolded
    }

    /// Returns whether the work waits for the next batch because of a refold in parts. The refold may have changed
    /// verdicts that were read before it, so the next batch reads them again.
    func isLeft(_ work: Work, after outcomes: [WorkOutcome]) -> Bool {
        reads.refolded != nil && work.refold == nil && insertion(after: outcomes) == nil
    }

    /// Answers the order of a refold. A correction that follows other works is left to the next batch.
    func refold(_ order: DriverRefold, _ result: inout FoldedGroup) {
        if order.correction != nil, !result.outcomes.isEmpty {
            result.isLeft = true
        } else {
            result.outcomes.append(.refold(reads.refolded?.counts ?? RefoldCounts()))
        }
    }
}
