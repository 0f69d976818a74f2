// Wall-clock time for log lines. Foundation's formatters are too slow here, because each request logs a line.

import GregorianCalendar

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Returns the milliseconds since 1970-01-01T00:00:00Z by the system's clock.
package func millisecondsSince1970() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
}

/// Returns the time in UTC in the format of RFC 3339, for example `2026-02-03T04:05:06.007Z`. RFC 3339 has only the
/// years 0 to 9999. A time before or after these years is clamped to them.
package func timestamp(_ milliseconds: Int64) -> String {
    let first: Int64 = -62_167_219_200_000
    let last: Int64 = 253_402_300_799_999
    let millisecondsPerDay = 86_400_000
    let clamped = Int(min(max(milliseconds, first), last))
    let millisecondOfDay = (clamped % millisecondsPerDay + millisecondsPerDay) % millisecondsPerDay
    let date = GregorianDate(daysSinceEpoch: (clamped - millisecondOfDay) / millisecondsPerDay)
    let (second, millisecond) = millisecondOfDay.quotientAndRemainder(dividingBy: 1000)
    return padded(date.year, 4) + "-" + padded(date.month, 2) + "-" + padded(date.day, 2) + "T"
        + padded(second / 3600, 2) + ":" + padded(second / 60 % 60, 2) + ":" + padded(second % 60, 2) + "."
        + padded(millisecond, 3) + "Z"
}

private func padded(_ number: Int, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
}
