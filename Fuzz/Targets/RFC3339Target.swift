// Parses arbitrary bytes as a time, and compares the result with a reference. The reference reads fields at fixed
// positions and counts days by the Julian day number. JourneyModel scans the text and counts days in eras of 400 years.
//
// Also writes a 64-bit number of milliseconds since 1970 as a time, and parses this time. The result must be the same
// number. For a year that does not have four digits, the result must be the first or last moment that can be written.
//
// Input: the text of a time. Its first eight bytes are also used as the number.

import JourneyModel

func fuzzRFC3339(_ input: [UInt8]) throws(Finding) {
    let moment = input.withUnsafeBufferPointer { RFC3339.moment(from: $0) }
    let expected = ReferenceTime(input)?.millisecondsSinceEpoch
    try require(moment?.millisecondsSinceEpoch == expected, "The reference has \(expected.map(String.init) ?? "none").")
    if let moment {
        let text = RFC3339.text(of: moment)
        try require(RFC3339.moment(from: text) == moment, "Written, it is another moment.")
        try require(RFC3339.moment(from: String(decoding: input, as: UTF8.self)) == moment, "Text and bytes differ.")
    }
    let number = input.prefix(8).reduce(0 as Int64) { $0 << 8 | Int64($1) }
    let text = RFC3339.text(of: Moment(millisecondsSinceEpoch: number))
    let clamped = min(max(number, ReferenceTime.earliest), ReferenceTime.latest)
    try require(text.utf8.count == 24, "Written in \(text.utf8.count) bytes.")
    try require(RFC3339.moment(from: text)?.millisecondsSinceEpoch == clamped, "A number written as another moment.")
}

private struct ReferenceTime {
    static let earliest: Int64 = -62_167_219_200_000
    static let latest: Int64 = 253_402_300_799_999

    private(set) var millisecondsSinceEpoch: Int64

    init?(_ text: [UInt8]) {
        guard text.count >= 20, Self.matches(text[..<19], "0000-00-00T00:00:00") else { return nil }
        func number(_ range: Range<Int>) -> Int { text[range].reduce(0) { $0 * 10 + Int($1) - 48 } }
        let (year, month, day) = (number(0..<4), number(5..<7), number(8..<10))
        let (hour, minute, second) = (number(11..<13), number(14..<16), number(17..<19))
        guard (1...12).contains(month), day >= 1, hour < 24, minute < 60, second <= 60 else { return nil }
        let dayNumber = Self.dayNumber(year, month, day)
        let next = month == 12 ? Self.dayNumber(year + 1, 1, 1) : Self.dayNumber(year, month + 1, 1)
        guard dayNumber < next else { return nil }

        let rest = text[19...]
        var fraction: [UInt8] = []
        if rest.first == UInt8(ascii: ".") {
            fraction = rest.dropFirst().prefix { (48...57).contains($0) }
            if fraction.isEmpty { return nil }
        }
        guard let offset = Self.offset(rest.dropFirst(fraction.isEmpty ? 0 : 1 + fraction.count)) else { return nil }

        let minutes = (dayNumber - Self.dayNumber(1970, 1, 1)) * 1440 + hour * 60 + minute - offset
        let thousandths = (fraction.prefix(3) + [48, 48, 48]).prefix(3).reduce(0) { $0 * 10 + Int($1) - 48 }
        if second == 60, !Self.endsMonth(minutes) { return nil }
        let milliseconds = second == 60 ? 59_999 : second * 1000 + thousandths
        millisecondsSinceEpoch = Int64(minutes * 60_000 + milliseconds)
        guard (Self.earliest...Self.latest).contains(millisecondsSinceEpoch) else { return nil }
    }

    /// Returns whether the text matches the pattern. In the pattern "0" stands for any digit, and "T" and "Z" stand for
    /// the letter in either case.
    private static func matches(_ text: ArraySlice<UInt8>, _ pattern: String) -> Bool {
        text.count == pattern.utf8.count
            && zip(text, pattern.utf8).allSatisfy { byte, form in
                switch form {
                case UInt8(ascii: "0"): (48...57).contains(byte)
                case UInt8(ascii: "T"), UInt8(ascii: "Z"): byte | 0x20 == form | 0x20
                default: byte == form
                }
            }
    }

    private static func offset(_ text: ArraySlice<UInt8>) -> Int? {
        if matches(text, "Z") { return 0 }
        guard let sign = text.first, matches(text.dropFirst(), "00:00") else { return nil }
        let digits = text.dropFirst().map { Int($0) - 48 }
        let (hours, minutes) = (digits[0] * 10 + digits[1], digits[3] * 10 + digits[4])
        guard hours < 24, minutes < 60 else { return nil }
        switch sign {
        case UInt8(ascii: "+"): return hours * 60 + minutes
        case UInt8(ascii: "-"): return -(hours * 60 + minutes)
        default: return nil
        }
    }

    /// Returns the Julian day number of a Gregorian date (Fliegel and Van Flandern, CACM 11, 1968).
    private static func dayNumber(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let shift = (month - 14) / 12
        return (1461 * (year + 4800 + shift)) / 4 + (367 * (month - 2 - 12 * shift)) / 12
            - (3 * ((year + 4900 + shift) / 100)) / 4 + day - 32075
    }

    /// Returns whether this minute of UTC, counted from 1970, is the last minute of a month.
    private static func endsMonth(_ minutes: Int) -> Bool {
        guard minutes % 1440 == 1439 || minutes % 1440 == -1 else { return false }
        let tomorrow = (minutes + 1) / 1440 + dayNumber(1970, 1, 1)
        return (-1...10_000).contains { year in (1...12).contains { dayNumber(year, $0, 1) == tomorrow } }
    }
}
