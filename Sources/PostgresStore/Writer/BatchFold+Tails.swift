// Decides which of a driver's stored events must be read before a late event can be folded.

import Engine
import JourneyModel

extension BatchFold {
    private static let tailGrowth: Int64 = 8
    /// A driver has few events if this number of reads, each of at most `sharedTailMax` events, is enough for all of
    /// them.
    private static let tailsMax: Int64 = 4

    /// Prepares the fold for an event at `time`. Returns false if more events must be read, or if the event is left to
    /// another batch.
    func isReady(
        _ fold: inout DriverFold, for time: Moment, of group: DriverGroup, _ result: inout FoldedGroup
    ) -> Bool {
        if fold.isReady(for: time) { return true }
        if fold.isChanged || !result.outcomes.isEmpty {
            result.isLeft = true
            return false
        }
        fold.forgetTail()
        if fold.isReady(for: time) { return true }
        result.need.tail = tail(of: group, fold, from: time)
        return false
    }

    /// Returns which stored events must be read for the group's first event, which is at `time`. The same read should
    /// also serve the group's other late events. With a separate read for each event, 300 late events could need 300
    /// batches.
    ///
    /// The first read begins at the group's earliest late event. If this read ends before `time`, a second read
    /// follows:
    ///
    /// - If the driver has few events, the second read begins at the earliest late event that no read has covered yet.
    ///   Further reads may follow.
    /// - For a driver with many events, the second read begins at `time`.
    private func tail(of group: DriverGroup, _ fold: DriverFold, from time: Moment) -> BatchNeed.Tail {
        var need = BatchNeed.Tail(from: time, eventsMax: 0)
        let read = reads.tails[TextKey(fold.row.driver.rawValue)]
        var lateCount: Int64 = 0
        if read == nil || fold.row.lastSeq <= Self.tailsMax * Self.sharedTailMax {
            for case .append(let append, _, _) in group.works.map(\.kind) where storedKey(of: append) == nil {
                let corrected = ClockCorrection(append.request, memory: fold.row.clockMemory).corrected
                if fold.isReady(for: corrected) { continue }
                if let through = read?.through, corrected <= through { continue }
                need.from = min(need.from, corrected)
                lateCount += 1
            }
        }
        need.eventsMax = min(tailBegin * max(lateCount, 1), Self.sharedTailMax)
        return need
    }

    /// Adds the event to the fold. Returns nil if more events must be read first, or if the event is left to another
    /// batch.
    func add(
        _ event: OrderedEvent, _ unsaved: FoldedEvent.Unsaved, to fold: inout DriverFold, _ result: inout FoldedGroup
    ) -> (verdict: Verdict, refoldedCount: Int)? {
        if let refolded = insertion(after: result.outcomes), let verdict = refolded.verdict {
            fold = DriverFold(after: refolded)
            return (verdict, refolded.refoldedCount)
        }
        if let added = fold.add(event, unsaved) { return added }
        needMore(than: reads.tails[TextKey(fold.row.driver.rawValue)], for: event, unsaved, fold.row, &result)
        return nil
    }

    /// Called when the events in `tail` do not suffice to fold the event. If the event is the group's first work, notes
    /// what must be read or refolded. Any other event is left to another batch (`FoldedGroup.isLeft`).
    private func needMore(
        than tail: BatchReads.Tail?, for event: OrderedEvent, _ unsaved: FoldedEvent.Unsaved, _ row: StoredDriver,
        _ result: inout FoldedGroup
    ) {
        guard let tail, result.outcomes.isEmpty else {
            result.isLeft = true
            return
        }
        let count = max(Int64(tail.tail.events.count), tailBegin)
        if tail.from != event.occurredAt {
            // The previous read began at another late event of the group. The next read begins at this event.
            result.need.tail = BatchNeed.Tail(from: event.occurredAt, eventsMax: tailBegin)
        } else if count < tailMax {
            result.need.tail = BatchNeed.Tail(from: tail.from, eventsMax: min(Self.tailGrowth * count, tailMax))
        } else {
            result.need.refold = RefoldInParts(of: row, inserting: event, unsaved, from: tail.from)
        }
    }
}
