// Formats the Date field (RFC 9110 section 5.6.7), for example `Sun, 06 Nov 1994 08:49:37 GMT`. Each event loop formats
// it at most once per second.

import GregorianCalendar

/// A cache of the formatted date, used on one loop only.
struct HTTPDate {
    private var second = Int64.min
    private var made = ""

    /// Returns the value of Date for a time in milliseconds since 1970. The time is clamped to the years 1970 to 9999.
    mutating func text(_ milliseconds: Int64) -> String {
        let current = min(max(0, milliseconds / 1000), HTTPDate.lastSecond)
        if current != second {
            second = current
            made = HTTPDate.format(current)
        }
        return made
    }

    private static let lastSecond: Int64 = 253_402_300_799
    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Formats a time in seconds since 1970, which must be from 0 to `lastSecond`.
    static func format(_ seconds: Int64) -> String {
        let day = Int(seconds / 86_400)
        let second = Int(seconds % 86_400)
        let date = GregorianDate(daysSinceEpoch: day)
        let clock = "\(two(second / 3600)):\(two(second / 60 % 60)):\(two(second % 60))"
        return "\(days[day % 7]), \(two(date.day)) \(months[date.month - 1]) \(four(date.year)) \(clock) GMT"
    }

    private static func two(_ number: Int) -> String {
        number < 10 ? "0\(number)" : "\(number)"
    }

    private static func four(_ number: Int) -> String {
        String(repeating: "0", count: max(0, 4 - String(number).count)) + String(number)
    }
}
