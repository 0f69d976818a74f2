// Converts times in the form of RFC 3339, section 5.6, to a Moment and back. No time zone database is needed, because
// the text itself has the offset. The years are 0000 to 9999 of the proleptic Gregorian calendar.

import GregorianCalendar

public enum RFC3339 {
    /// 0000-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z, the first and the last moment that can be written.
    static let earliest = Moment(millisecondsSinceEpoch: -62_167_219_200_000)
    static let latest = Moment(millisecondsSinceEpoch: 253_402_300_799_999)

    /// Parses a `date-time`. The fraction of the second may have any number of digits, and is truncated to
    /// milliseconds.
    ///
    /// The offset (`Z`, `z` or `±hh:mm`, including `-00:00`) is required. The separator must be `T` or `t`, and every
    /// field must have all its digits and a valid value. Returns nil for any other text, and for a time outside the
    /// years 0000 to 9999 in UTC.
    ///
    /// A leap second, written as `:60`, is accepted only at 23:59 UTC on the last day of a month. The result is the
    /// last millisecond before midnight, because Moment cannot represent a leap second.
    public static func moment(from utf8: UnsafeBufferPointer<UInt8>) -> Moment? {
        var scanner = RFC3339Scanner(utf8)
        guard let date = scanner.date(), scanner.take("T", or: "t"), let time = scanner.time(),
            let offsetMinutes = scanner.offsetMinutes(), scanner.isAtEnd
        else { return nil }
        let minutes = date.daysSinceEpoch * 1440 + time.hour * 60 + time.minute - offsetMinutes
        let millisecondOfMinute: Int
        if time.second == 60 {
            guard isLastMinuteOfMonth(minutesSinceEpoch: minutes) else { return nil }
            millisecondOfMinute = 59_999
        } else {
            millisecondOfMinute = time.second * 1000 + time.millisecond
        }
        let moment = Moment(millisecondsSinceEpoch: Int64(minutes * 60_000 + millisecondOfMinute))
        return earliest <= moment && moment <= latest ? moment : nil
    }

    /// Parses the UTF-8 of `text` as a `date-time`, by the rules of `moment(from utf8:)`.
    public static func moment(from text: String) -> Moment? {
        var text = text
        return text.withUTF8 { moment(from: $0) }
    }

    /// Returns the moment in a form like `2026-11-16T20:00:00.250Z`: in UTC, with three digits of fraction. A moment
    /// outside of the years 0000 to 9999 is written as `earliest` or `latest`.
    public static func text(of moment: Moment) -> String {
        let milliseconds = Int(min(max(moment, earliest), latest).millisecondsSinceEpoch)
        let millisecondOfDay = (milliseconds % 86_400_000 + 86_400_000) % 86_400_000
        let date = GregorianDate(daysSinceEpoch: (milliseconds - millisecondOfDay) / 86_400_000)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(24)
        func write(_ number: Int, digits: Int, then separator: Unicode.Scalar) {
            var power = [10, 100, 1000][digits - 2]
            while power > 0 {
                bytes.append(0x30 + UInt8(truncatingIfNeeded: number / power % 10))
                power /= 10
            }
            bytes.append(UInt8(ascii: separator))
        }
        write(date.year, digits: 4, then: "-")
        write(date.month, digits: 2, then: "-")
        write(date.day, digits: 2, then: "T")
        write(millisecondOfDay / 3_600_000, digits: 2, then: ":")
        write(millisecondOfDay / 60_000 % 60, digits: 2, then: ":")
        write(millisecondOfDay / 1000 % 60, digits: 2, then: ".")
        write(millisecondOfDay % 1000, digits: 3, then: "Z")
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func isLastMinuteOfMonth(minutesSinceEpoch: Int) -> Bool {
        let next = minutesSinceEpoch + 1
        return next % 1440 == 0 && GregorianDate(daysSinceEpoch: next / 1440).day == 1
    }
}

/// Reads the fields of a `date-time`. Each field must have exactly the number of digits that the grammar requires.
private struct RFC3339Scanner {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        self.bytes = bytes
    }

    var isAtEnd: Bool { position == bytes.count }

    /// Reads a `full-date`. Returns nil if there is no such day.
    mutating func date() -> GregorianDate? {
        guard let year = number(digits: 4), take("-"), let month = number(digits: 2), (1...12).contains(month),
            take("-"), let day = number(digits: 2), day >= 1,
            day <= GregorianDate.days(inMonth: month, ofYear: year)
        else { return nil }
        return GregorianDate(year: year, month: month, day: day)
    }

    /// Reads a `partial-time`. The second may be 60. The caller checks whether that is a leap second.
    mutating func time() -> (hour: Int, minute: Int, second: Int, millisecond: Int)? {
        guard let hour = number(digits: 2), hour <= 23, take(":"), let minute = number(digits: 2), minute <= 59,
            take(":"), let second = number(digits: 2), second <= 60
        else { return nil }
        guard take(".") else { return (hour, minute, second, 0) }
        guard let millisecond = fraction() else { return nil }
        return (hour, minute, second, millisecond)
    }

    /// Reads a `time-offset`. Returns the minutes east of UTC.
    mutating func offsetMinutes() -> Int? {
        if take("Z", or: "z") { return 0 }
        let isWest = take("-")
        guard isWest || take("+"), let hours = number(digits: 2), hours <= 23, take(":"),
            let minutes = number(digits: 2), minutes <= 59
        else { return nil }
        return (hours * 60 + minutes) * (isWest ? -1 : 1)
    }

    mutating func take(_ character: Unicode.Scalar, or other: Unicode.Scalar? = nil) -> Bool {
        guard position < bytes.count else { return false }
        let byte = bytes[position]
        guard byte == UInt8(ascii: character) || other.map({ byte == UInt8(ascii: $0) }) ?? false else { return false }
        position += 1
        return true
    }

    /// Reads at least one digit and returns milliseconds. Digits after the third are skipped.
    private mutating func fraction() -> Int? {
        var (millisecond, weight) = (0, 100)
        let start = position
        while let digit = digit() {
            millisecond += digit * weight
            weight /= 10
        }
        return position > start ? millisecond : nil
    }

    private mutating func number(digits: Int) -> Int? {
        var number = 0
        for _ in 0..<digits {
            guard let digit = digit() else { return nil }
            number = number * 10 + digit
        }
        return number
    }

    private mutating func digit() -> Int? {
        guard position < bytes.count, bytes[position].isASCIIDigit else { return nil }
        defer { position += 1 }
        return Int(bytes[position] - 0x30)
    }
}
