// Wall-clock time for log lines, without Foundation's formatters: a line is written per request.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Milliseconds since 1970-01-01T00:00:00Z by the system's clock.
package func millisecondsSince1970() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
}

/// RFC 3339 in UTC with milliseconds, for example `2026-02-03T04:05:06.007Z`. A time outside the years 0 to 9999,
/// which RFC 3339 cannot write, is shown as the nearest one that it can.
package func timestamp(_ milliseconds: Int64) -> String {
    let first: Int64 = -62_167_219_200_000
    let last: Int64 = 253_402_300_799_999
    let clamped = min(max(milliseconds, first), last)
    let secondsOfDay = 86_400
    let days = (clamped - first) / (Int64(secondsOfDay) * 1000)
    let rest = Int((clamped - first) % (Int64(secondsOfDay) * 1000))
    let date = civilDate(daysSinceYearZero: Int(days))
    let (second, millisecond) = rest.quotientAndRemainder(dividingBy: 1000)
    return padded(date.year, 4) + "-" + padded(date.month, 2) + "-" + padded(date.day, 2) + "T"
        + padded(second / 3600, 2) + ":" + padded(second / 60 % 60, 2) + ":" + padded(second % 60, 2) + "."
        + padded(millisecond, 3) + "Z"
}

/// The proleptic Gregorian date of a day counted from 0000-01-01. Works on years that begin in March, so that the
/// leap day is a year's last, in eras of 400 years from 1 March of the year -400 on, so that nothing is negative.
private func civilDate(daysSinceYearZero days: Int) -> (year: Int, month: Int, day: Int) {
    let eraDays = 146_097
    let shifted = days + eraDays - 60  // 0000-03-01 is day 60: the year 0 is a leap year
    let era = shifted / eraDays - 1
    let dayOfEra = shifted % eraDays
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    let year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
    return (year, month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
}

private func padded(_ number: Int, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
}
