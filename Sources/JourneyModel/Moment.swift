/// A point in time in whole milliseconds since 1970-01-01T00:00:00Z. Events are ordered with this resolution (contract,
/// section 1: "occurred_at in whole milliseconds").
public struct Moment: Hashable, Comparable, Sendable {
    public var millisecondsSinceEpoch: Int64

    public init(millisecondsSinceEpoch: Int64) {
        self.millisecondsSinceEpoch = millisecondsSinceEpoch
    }

    public static func < (earlier: Moment, later: Moment) -> Bool {
        earlier.millisecondsSinceEpoch < later.millisecondsSinceEpoch
    }

    /// Returns the moment `milliseconds` later than this one. Saturates at the limits of `Int64`.
    public func advanced(byMilliseconds milliseconds: Int64) -> Moment {
        let (sum, overflow) = millisecondsSinceEpoch.addingReportingOverflow(milliseconds)
        return Moment(millisecondsSinceEpoch: overflow ? (milliseconds > 0 ? .max : .min) : sum)
    }

    /// Returns the moment `seconds` later than this one. Saturates at the limits of `Int64`.
    public func advanced(bySeconds seconds: Int) -> Moment {
        let (milliseconds, overflow) = Int64(seconds).multipliedReportingOverflow(by: 1000)
        return advanced(byMilliseconds: overflow ? (seconds > 0 ? .max : .min) : milliseconds)
    }

    /// Returns this moment rounded down to a multiple of `seconds` since the epoch: 60 gives the start of the minute,
    /// 86,400 the start of the day in UTC. Saturates at the limits of `Int64`.
    public func floored(toSeconds seconds: Int64) -> Moment {
        let length = seconds * 1000
        return advanced(byMilliseconds: -(((millisecondsSinceEpoch % length) + length) % length))
    }

    /// Returns the milliseconds from `earlier` to this moment, negative if this moment is earlier than `earlier`.
    /// Saturates at the limits of `Int64`.
    public func milliseconds(since earlier: Moment) -> Int64 {
        let (difference, overflow) = millisecondsSinceEpoch.subtractingReportingOverflow(earlier.millisecondsSinceEpoch)
        return overflow ? (self > earlier ? .max : .min) : difference
    }
}
