// Tests of RFC 3339 times (section 5.6), with the examples of section 5.8. The expected values do not come from
// Foundation. To check one, run `date -u -d ... +%s`.

import JourneyModel
import Testing

struct RFC3339Tests {
    @Test(
        "Valid times are the instants they name",
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("1985-04-12T23:20:50.52Z", 482_196_050_520),
            ("1996-12-19T16:39:57-08:00", 851_042_397_000), ("1937-01-01T12:00:27.87+00:20", -1_041_337_172_130),
            ("2026-11-05T07:00:00+01:00", 1_793_858_400_000), ("2026-11-05t06:00:00z", 1_793_858_400_000),
            ("2026-11-05T06:00:00-00:00", 1_793_858_400_000), ("2026-11-05T00:30:00.5-05:30", 1_793_858_400_500),
            ("2000-02-29T00:00:00Z", 951_782_400_000), ("2024-02-29T23:59:59.999Z", 1_709_251_199_999),
            ("1969-12-31T23:59:59.999Z", -1), ("1969-12-31T23:59:59.9999Z", -1),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000), ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("0001-01-01T00:00:00Z", -62_135_596_800_000), ("1900-03-01T00:00:00Z", -2_203_891_200_000),
        ] as [(String, Int64)])
    func valid(_ text: String, _ milliseconds: Int64) {
        #expect(RFC3339.moment(from: text) == Moment(millisecondsSinceEpoch: milliseconds))
    }

    @Test("A fraction has any number of digits and is cut off, not rounded")
    func fractions() {
        for (fraction, milliseconds) in [
            (".1", 100), (".12", 120), (".123", 123), (".1239", 123), (".123999999999999999999999999", 123),
            (".0009", 0), (".999999", 999),
        ] as [(String, Int64)] {
            #expect(
                RFC3339.moment(from: "1970-01-01T00:00:00\(fraction)Z")
                    == Moment(millisecondsSinceEpoch: milliseconds), "\(fraction)")
        }
    }

    @Test("A leap second is the last millisecond of its minute, and only where there can be one")
    func leapSeconds() {
        let lastMillisecond = Moment(millisecondsSinceEpoch: 662_687_999_999)
        for text in ["1990-12-31T23:59:60Z", "1990-12-31T15:59:60-08:00", "1990-12-31T23:59:60.7Z"] {
            #expect(RFC3339.moment(from: text) == lastMillisecond, "\(text)")
        }
        for text in [
            "1990-12-31T23:58:60Z", "1990-12-30T23:59:60Z", "1990-12-31T23:59:60+01:00", "1990-12-31T23:59:61Z",
        ] {
            #expect(RFC3339.moment(from: text) == nil, "\(text)")
        }
    }

    @Test(
        "Everything else is refused",
        arguments: [
            "", "2026-11-05", "2026-11-05T06:00:00", "2026-11-05 06:00:00Z", "2026-11-05T06:00Z",
            "2026-11-05T06:00:00.Z",
            "2026-11-05T06:00:00,5Z", "2026-11-05T06:00:00+0100", "2026-11-05T06:00:00+01", "2026-11-05T06:00:00+24:00",
            "2026-11-05T06:00:00+01:60", "2026-11-05T24:00:00Z", "2026-11-05T06:60:00Z", "2026-13-05T06:00:00Z",
            "2026-00-05T06:00:00Z", "2026-11-31T06:00:00Z", "2026-11-00T06:00:00Z", "2026-02-29T06:00:00Z",
            "1900-02-29T06:00:00Z", "26-11-05T06:00:00Z", "+2026-11-05T06:00:00Z", "12026-11-05T06:00:00Z",
            "2026-11-05T06:00:00Z ", " 2026-11-05T06:00:00Z", "2026-11-05T06:00:00ZZ", "2026-11-05T06:00:00",
            "2026-11-5T06:00:00Z", "2026-11-05T6:00:00Z", "2026-11-05T06:00:00\u{2212}01:00", "1793858400",
            "0000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "\u{662}026-11-05T06:00:00Z",
        ])
    func invalid(_ text: String) {
        #expect(RFC3339.moment(from: text) == nil)
    }

    @Test("Every cut of a valid time is refused or is a valid time itself")
    func cuts() {
        let text = "2026-11-05T06:04:00.123+02:00"
        for length in 0..<text.utf8.count {
            #expect(RFC3339.moment(from: String(text.prefix(length))) == nil, "\(length)")
        }
    }

    @Test("What is written reads back, in UTC with three digits")
    func writing() {
        #expect(RFC3339.text(of: Moment(millisecondsSinceEpoch: 0)) == "1970-01-01T00:00:00.000Z")
        #expect(RFC3339.text(of: Moment(millisecondsSinceEpoch: -1)) == "1969-12-31T23:59:59.999Z")
        #expect(RFC3339.text(of: Moment(millisecondsSinceEpoch: 1_793_858_400_250)) == "2026-11-05T06:00:00.250Z")
        #expect(RFC3339.text(of: Moment(millisecondsSinceEpoch: .min)) == "0000-01-01T00:00:00.000Z")
        #expect(RFC3339.text(of: Moment(millisecondsSinceEpoch: .max)) == "9999-12-31T23:59:59.999Z")
    }

    @Test("Every thirteenth day of ten thousand years is written and read back")
    func everyThirteenthDay() {
        var day = Int64(-719_528)
        while day < 2_932_897 {
            let moment = Moment(millisecondsSinceEpoch: day * 86_400_000 + 43_200_001)
            guard RFC3339.moment(from: RFC3339.text(of: moment)) == moment else {
                Issue.record("day \(day)")
                return
            }
            day += 13
        }
    }
}
