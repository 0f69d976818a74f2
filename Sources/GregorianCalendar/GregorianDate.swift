// Converts days to dates and back in the proleptic Gregorian calendar, without a time zone or a clock.
//
// The calculation follows Howard Hinnant's "chrono-compatible low-level date algorithms". Each year begins in March, so
// that the leap day is the last day of the year. An era is 400 years and always has 146,097 days.

package struct GregorianDate: Hashable, Sendable {
    package var year: Int
    /// 1 to 12.
    package var month: Int
    /// 1 to 31.
    package var day: Int

    private static let daysPerEra = 146_097
    /// The number of days from 1 March of the year -400 to 1970-01-01. The calculation starts so early that no
    /// intermediate result is negative.
    private static let daysToEpoch = 719_468 + daysPerEra

    /// Creates a date. The date must exist, and its year must be from 0 to 9999.
    package init(year: Int, month: Int, day: Int) {
        self.year = year
        self.month = month
        self.day = day
    }

    /// Creates the date `daysSinceEpoch` days after 1970-01-01. Its year must be from 0 to 9999.
    package init(daysSinceEpoch: Int) {
        let (era, dayOfEra) = (daysSinceEpoch + Self.daysToEpoch).quotientAndRemainder(dividingBy: Self.daysPerEra)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = (era - 1) * 400 + yearOfEra + (month <= 2 ? 1 : 0)
    }

    /// Days since 1970-01-01. Negative for earlier dates.
    package var daysSinceEpoch: Int {
        let (era, yearOfEra) = (year + 400 - (month <= 2 ? 1 : 0)).quotientAndRemainder(dividingBy: 400)
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * Self.daysPerEra + dayOfEra - Self.daysToEpoch
    }

    package static func days(inMonth month: Int, ofYear year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
