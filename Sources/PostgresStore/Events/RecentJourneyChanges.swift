// The last changes of a driver's journey, stored in the driver's row. A client that reconnects to the stream gets the
// changes that it missed (docs/decisions/changes-in-the-driver-row.md).
//
// The encoding differs from that of SQLite's store, because here a change contains the id of its session.

import Engine
import JourneyModel

/// At most `countMax` changes, the oldest first, in the form of the column `recent_changes`:
///
///     change   = head seq [session] [grace] [hard] [ended by]
///     head     = one byte: state | 8 (has session) | 16 (has grace deadline) | 32 (has hard deadline)
///                | 64 (has ended by) | 128 (same session as in the change before; 8 is then not set)
///     seq      = `event.seq`, LEB128
///     session  = number of bytes, LEB128, and the bytes
///     grace, hard = milliseconds since 1970, zigzag, LEB128
///     ended by = code of Journey.Ending, LEB128
struct RecentJourneyChanges {
    struct Change: Hashable {
        /// The number of the event that caused the change.
        var seq: Int64
        var state: JourneyState
        var sessionID: String?
        var graceDeadline: Moment?
        var hardDeadline: Moment?
        var endedBy: Journey.Ending?

        var journey: Journey {
            Journey(
                state: state, sessionID: sessionID, graceDeadline: graceDeadline, hardDeadline: hardDeadline,
                endedBy: endedBy)
        }

        init(seq: Int64, journey: Journey) {
            self.seq = seq
            (state, sessionID, endedBy) = (journey.state, journey.sessionID, journey.endedBy)
            (graceDeadline, hardDeadline) = (journey.graceDeadline, journey.hardDeadline)
        }
    }

    /// The maximum number of changes. It is enough for two journeys from IDLE to SESSION_ENDED. A reader that missed
    /// more changes gets the current state.
    static let countMax = 16

    private(set) var changes: [Change] = []

    /// Whether older changes may have been dropped.
    var isFull: Bool { changes.count >= Self.countMax }

    /// Records the journey after event `seq`. Does nothing if this journey and `before` look the same on a stream.
    mutating func note(_ journey: Journey, after before: Journey, seq: Int64) {
        guard Self.seen(journey) != Self.seen(before) else { return }
        if changes.count >= Self.countMax { changes.removeFirst(changes.count - Self.countMax + 1) }
        changes.append(Change(seq: seq, journey: journey))
    }

    /// Returns the journey with only the members that a stream reports.
    static func seen(_ journey: Journey) -> Journey {
        var seen = journey
        (seen.targetChargerID, seen.nextTargetChargerID, seen.previousSessionID) = (nil, nil, nil)
        return seen
    }

    /// `changes` begins with the oldest change.
    init(_ changes: [Change]) {
        self.changes = changes.suffix(Self.countMax)
    }

    // MARK: Bytes

    private enum Head {
        static let state: UInt8 = 7
        static let session: UInt8 = 8
        static let grace: UInt8 = 16
        static let hard: UInt8 = 32
        static let ending: UInt8 = 64
        static let sameSession: UInt8 = 128
    }

    init() {}

    /// Malformed bytes give an empty list. A reader of the stream then gets the current state.
    init(bytes: [UInt8]) {
        var reader = Reader(bytes: bytes)
        while !reader.isAtEnd {
            guard let change = reader.change(after: changes.last) else {
                changes = []
                return
            }
            changes.append(change)
        }
    }

    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        var session: String?
        for change in changes {
            var head = UInt8(truncatingIfNeeded: change.state.code)
            var named: String?
            if let own = change.sessionID {
                if let session, haveSameBytes(own, session) {
                    head |= Head.sameSession
                } else {
                    head |= Head.session
                    named = own
                }
            }
            session = change.sessionID
            if change.graceDeadline != nil { head |= Head.grace }
            if change.hardDeadline != nil { head |= Head.hard }
            if change.endedBy != nil { head |= Head.ending }
            bytes.append(head)
            Self.append(UInt64(bitPattern: change.seq), to: &bytes)
            if let named {
                Self.append(UInt64(named.utf8.count), to: &bytes)
                bytes += named.utf8
            }
            for moment in [change.graceDeadline, change.hardDeadline] {
                guard let value = moment?.millisecondsSinceEpoch else { continue }
                Self.append(UInt64(bitPattern: value << 1 ^ value >> 63), to: &bytes)
            }
            if let endedBy = change.endedBy { Self.append(UInt64(bitPattern: endedBy.code), to: &bytes) }
        }
        return bytes
    }

    private static func append(_ value: UInt64, to bytes: inout [UInt8]) {
        var value = value
        while value >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: value) | 0x80)
            value >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: value))
    }

    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        var isAtEnd: Bool { position == bytes.count }

        mutating func change(after last: Change?) -> Change? {
            guard position < bytes.count else { return nil }
            let head = bytes[position]
            position += 1
            guard let state = JourneyState(code: Int64(head & Head.state)), let seq = number() else { return nil }
            var change = Change(seq: Int64(bitPattern: seq), journey: Journey(state: state))
            if head & Head.session != 0 {
                guard let count = number(), count <= UInt64(bytes.count - position) else { return nil }
                let end = position + Int(count)
                change.sessionID = String(decoding: bytes[position..<end], as: UTF8.self)
                position = end
            } else if head & Head.sameSession != 0 {
                guard let session = last?.sessionID else { return nil }
                change.sessionID = session
            }
            if head & Head.grace != 0 {
                guard let moment = moment() else { return nil }
                change.graceDeadline = moment
            }
            if head & Head.hard != 0 {
                guard let moment = moment() else { return nil }
                change.hardDeadline = moment
            }
            if head & Head.ending != 0 {
                guard let code = number() else { return nil }
                change.endedBy = Journey.Ending(code: Int64(bitPattern: code))
            }
            return change
        }

        private mutating func moment() -> Moment? {
            number().map { Moment(millisecondsSinceEpoch: Int64(bitPattern: $0 >> 1) ^ -Int64(bitPattern: $0 & 1)) }
        }

        private mutating func number() -> UInt64? {
            var value: UInt64 = 0
            var shift: UInt64 = 0
            while position < bytes.count, shift < 64 {
                let byte = bytes[position]
                position += 1
                value |= UInt64(byte & 0x7F) << shift
                if byte < 0x80 { return value }
                shift += 7
            }
            return nil
        }
    }
}
