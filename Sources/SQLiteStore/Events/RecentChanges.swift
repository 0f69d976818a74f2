// The most recent changes of a driver's journey. The journey's stream replays them to a reader that reconnects. They
// are in the driver's row, because storing an event reads and writes this row anyway.
//
// A change is the journey as it was right after an event was added. A late event does not alter the changes that are
// recorded already.

import Engine
import JourneyModel

/// At most `countMax` changes, the oldest first, in the form of the column `recent_changes`:
///
///     change   = head event [session] [grace] [hard] [ended by]
///     head     = one byte: state | 8 (has session) | 16 (has grace deadline) | 32 (has hard deadline)
///                | 64 (has ended by)
///     event    = row number in `event`, LEB128
///     session  = row number in `session`, LEB128
///     grace, hard = milliseconds since 1970, zigzag, LEB128
///     ended by = code of Journey.Ending, LEB128
struct RecentChanges {
    struct Change: Hashable {
        var event: Int64
        var state: JourneyState
        /// Row number in `session`.
        var session: Int64?
        var graceDeadline: Moment?
        var hardDeadline: Moment?
        var endedBy: Journey.Ending?
    }

    /// The maximum number of changes. It is enough for two journeys from IDLE to SESSION_ENDED. A reader that missed
    /// this many changes or more gets the current state.
    static let countMax = 16

    private(set) var changes: [Change]

    /// Decodes the column. Malformed bytes give an empty list and not an error, so that the server still accepts the
    /// driver's events. A reader of the journey's stream then gets the current state.
    init(bytes: [UInt8]) {
        var reader = ChangeReader(bytes: bytes)
        changes = []
        while let change = reader.change() { changes.append(change) }
        if !reader.isAtEnd { changes = [] }
    }

    /// Whether older changes may have been dropped.
    var isFull: Bool { changes.count >= Self.countMax }

    /// Appends a change, and drops the oldest changes beyond `countMax`. Does not decode the other changes, because
    /// this function runs for nearly every event.
    static func append(_ change: Change, to bytes: inout [UInt8]) {
        var reader = ChangeReader(bytes: bytes)
        var count = 0
        while reader.skipChange() { count += 1 }
        if !reader.isAtEnd {
            bytes = []
        } else if count >= countMax {
            reader.position = 0
            for _ in countMax...count { _ = reader.skipChange() }
            bytes.removeFirst(reader.position)
        }
        change.append(to: &bytes)
    }
}

extension RecentChanges.Change {
    fileprivate func append(to bytes: inout [UInt8]) {
        var head = UInt8(truncatingIfNeeded: state.code)
        if session != nil { head |= ChangeForm.hasSession }
        if graceDeadline != nil { head |= ChangeForm.hasGrace }
        if hardDeadline != nil { head |= ChangeForm.hasHard }
        if endedBy != nil { head |= ChangeForm.hasEnding }
        bytes.append(head)
        LEB128.append(UInt64(bitPattern: event), to: &bytes)
        if let session { LEB128.append(UInt64(bitPattern: session), to: &bytes) }
        if let graceDeadline { LEB128.append(zigzag: graceDeadline.millisecondsSinceEpoch, to: &bytes) }
        if let hardDeadline { LEB128.append(zigzag: hardDeadline.millisecondsSinceEpoch, to: &bytes) }
        if let endedBy { LEB128.append(UInt64(bitPattern: endedBy.code), to: &bytes) }
    }
}

private enum ChangeForm {
    static let stateMask: UInt8 = 7
    static let hasSession: UInt8 = 8
    static let hasGrace: UInt8 = 16
    static let hasHard: UInt8 = 32
    static let hasEnding: UInt8 = 64
}

private struct ChangeReader {
    let bytes: [UInt8]
    var position = 0

    var isAtEnd: Bool { position == bytes.count }

    mutating func change() -> RecentChanges.Change? {
        let start = position
        guard position < bytes.count else { return nil }
        let head = bytes[position]
        position += 1
        guard head < 128, let state = JourneyState(code: Int64(head & ChangeForm.stateMask)), let event = number(),
            let session = number(if: head & ChangeForm.hasSession != 0),
            let grace = number(if: head & ChangeForm.hasGrace != 0),
            let hard = number(if: head & ChangeForm.hasHard != 0),
            let ending = number(if: head & ChangeForm.hasEnding != 0)
        else {
            position = start
            return nil
        }
        return RecentChanges.Change(
            event: Int64(bitPattern: event), state: state, session: session.map(Int64.init(bitPattern:)),
            graceDeadline: grace.map(Self.moment), hardDeadline: hard.map(Self.moment),
            endedBy: ending.flatMap { Journey.Ending(code: Int64(bitPattern: $0)) })
    }

    /// Skips one change. Returns false if the bytes are not a change, or if no bytes are left.
    mutating func skipChange() -> Bool {
        let start = position
        guard position < bytes.count else { return false }
        let head = bytes[position]
        position += 1
        // After `head` come the event's number and one more number for each bit that is set outside `stateMask`.
        let isKnown = head < 128 && JourneyState(code: Int64(head & ChangeForm.stateMask)) != nil
        guard isKnown, (0...(head & ~ChangeForm.stateMask).nonzeroBitCount).allSatisfy({ _ in number() != nil }) else {
            position = start
            return false
        }
        return true
    }

    private static func moment(_ zigzag: UInt64) -> Moment {
        Moment(millisecondsSinceEpoch: LEB128.signed(zigzag))
    }

    /// Reads a number if `isThere` is true, otherwise returns `.some(nil)`. Returns nil if the bytes are not a number.
    private mutating func number(if isThere: Bool) -> UInt64?? {
        guard isThere else { return .some(nil) }
        return number().map { .some($0) }
    }

    private mutating func number() -> UInt64? { LEB128.number(in: bytes, at: &position) }
}
