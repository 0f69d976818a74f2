// Tests of the eight settings (contract, section 2): a handwritten copy of the contract's table, each range's limits,
// and invalid numbers.

import JourneyModel
import Testing

struct SettingsTests {
    struct Row: Sendable {
        var field: String
        var variable: String
        var defaultText: String
        var max: String
        var aboveMax: String
        var isInteger: Bool

        init(_ line: Substring) {
            let cells = line.split(separator: " ").map(String.init)
            (field, variable, defaultText, max, aboveMax) = (
                cells[0], "NATIVE_" + cells[1], cells[2], cells[3], cells[4]
            )
            isInteger = cells[5] == "n"
        }
    }

    /// Columns: field, variable without NATIVE_, default, largest value, a value that is too large, and the type of
    /// number: n (whole) or x (any).
    static let rows = """
        chargerIntentRadius_m        CHARGER_INTENT_RADIUS_M        400   1000  1000.001  x
        chargerAnchorRadius_m        CHARGER_ANCHOR_RADIUS_M        30    100   100.5     x
        chargerDwellSeconds          CHARGER_DWELL_SECONDS          120   600   601       n
        merchantUnlockRadius_m       MERCHANT_UNLOCK_RADIUS_M       40    200   201       x
        gracePeriodSeconds           GRACE_PERIOD_SECONDS           900   3600  3601      n
        hardTimeoutSeconds           HARD_TIMEOUT_SECONDS           3600  7200  7201      n
        locationAccuracyThreshold_m  LOCATION_ACCURACY_THRESHOLD_M  50    200   200.1     x
        speedThresholdForDwell_mps   SPEED_THRESHOLD_FOR_DWELL_MPS  1.5   10    10.01     x
        """.split(separator: "\n").map(Row.init)

    private func make(_ values: [String: String]) throws -> Settings {
        try Settings.make { values[$0] }
    }

    private func errors(_ values: [String: String]) -> [SettingsError] {
        do throws(Settings.Invalid) {
            _ = try Settings.make { values[$0] }
            return []
        } catch {
            return error.errors
        }
    }

    @Test("The declarations are the contract's table")
    func declarations() {
        #expect(Settings.declarations.map(\.field) == Self.rows.map(\.field))
        #expect(Settings.declarations.map(\.variable) == Self.rows.map(\.variable))
        #expect(Settings.declarations.map(\.defaultText) == Self.rows.map(\.defaultText))
        #expect(Settings.declarations[0].allowed == "0 < x <= 1000")
        #expect(Settings.declarations[1].allowed == "0 < x <= 100, and <= NATIVE_CHARGER_INTENT_RADIUS_M")
        #expect(Settings.declarations[4].allowed == "0 < n <= 3600, and <= NATIVE_HARD_TIMEOUT_SECONDS")
    }

    @Test("Nothing set is the defaults, and each default may be set", arguments: rows)
    func defaults(_ row: Row) throws {
        #expect(try make([:]) == Settings())
        #expect(try make([row.variable: row.defaultText]) == Settings())
    }

    @Test("Each range holds its upper end and not zero, nothing above it and nothing below", arguments: rows)
    func ranges(_ row: Row) {
        #expect(errors([row.variable: row.max]) == [])
        for text in [row.aboveMax, "0", "-1", "99999999999999999999999999"] {
            #expect(errors([row.variable: text]).map(\.variable) == [row.variable], "\(text)")
        }
        let withFraction = row.defaultText + (row.defaultText.contains(".") ? "0" : ".0")
        #expect(errors([row.variable: withFraction]).isEmpty != row.isInteger)
    }

    @Test("No number is no setting", arguments: rows)
    func noNumbers(_ row: Row) {
        let texts = [
            "nan", "NaN", "inf", "infinity", "40m", "0x10", "+5", "1e1", "", " 5", "5 ", "5,0", "1_0", ".5", "5.",
            "1.2.3",
            "\u{665}", "5\n",
        ]
        for text in texts {
            let errors = errors([row.variable: text])
            #expect(errors.map(\.variable) == [row.variable], "\(text)")
            #expect(errors.first?.value == text)
        }
    }

    @Test("The anchor lies within the intent radius, the grace period within the timeout")
    func pairs() {
        #expect(errors(["NATIVE_CHARGER_INTENT_RADIUS_M": "30"]) == [])
        #expect(errors(["NATIVE_HARD_TIMEOUT_SECONDS": "900"]) == [])
        let tooSmall = errors(["NATIVE_CHARGER_INTENT_RADIUS_M": "29.5", "NATIVE_HARD_TIMEOUT_SECONDS": "899"])
        #expect(tooSmall.map(\.variable) == ["NATIVE_CHARGER_ANCHOR_RADIUS_M", "NATIVE_GRACE_PERIOD_SECONDS"])
        #expect(
            tooSmall.map(\.description) == [
                "NATIVE_CHARGER_ANCHOR_RADIUS_M=30 is not allowed; allowed is 0 < x <= 100, "
                    + "and <= NATIVE_CHARGER_INTENT_RADIUS_M, which is 29.5",
                "NATIVE_GRACE_PERIOD_SECONDS=900 is not allowed; allowed is 0 < n <= 3600, "
                    + "and <= NATIVE_HARD_TIMEOUT_SECONDS, which is 899",
            ])
        #expect(errors(["NATIVE_GRACE_PERIOD_SECONDS": "1", "NATIVE_HARD_TIMEOUT_SECONDS": "0"]).count == 1)
    }

    @Test("All bad variables are told at once, one line each")
    func allAtOnce() {
        let errors = errors([
            "NATIVE_SPEED_THRESHOLD_FOR_DWELL_MPS": "nan", "NATIVE_CHARGER_INTENT_RADIUS_M": "40m",
            "NATIVE_CHARGER_DWELL_SECONDS": "1\n2",
        ])
        #expect(
            errors.map(\.variable) == [
                "NATIVE_CHARGER_INTENT_RADIUS_M", "NATIVE_CHARGER_DWELL_SECONDS",
                "NATIVE_SPEED_THRESHOLD_FOR_DWELL_MPS",
            ])
        #expect(errors[0].description == "NATIVE_CHARGER_INTENT_RADIUS_M=40m is not allowed; allowed is 0 < x <= 1000")
        #expect(errors.allSatisfy { !$0.description.contains("\n") })
    }

    @Test("The wire has exactly eight JSON numbers, 400 and not 400.0")
    func wire() throws {
        #expect(
            String(decoding: Settings().wireJSON, as: UTF8.self)
                == #"{"chargerIntentRadius_m":400,"chargerAnchorRadius_m":30,"chargerDwellSeconds":120,"#
                + #""merchantUnlockRadius_m":40,"gracePeriodSeconds":900,"hardTimeoutSeconds":3600,"#
                + #""locationAccuracyThreshold_m":50,"speedThresholdForDwell_mps":1.5}"#)
        let odd = try make([
            "NATIVE_MERCHANT_UNLOCK_RADIUS_M": "0.00001", "NATIVE_CHARGER_INTENT_RADIUS_M": "0400.50",
            "NATIVE_CHARGER_ANCHOR_RADIUS_M": "12.125",
        ])
        let root = try JSONValue.parse(odd.wireJSON)
        #expect(root["merchantUnlockRadius_m"] == .number("1e-05"))
        #expect(root["chargerIntentRadius_m"] == .number("400.5"))
        #expect(root["chargerAnchorRadius_m"] == .number("12.125"))
    }

    @Test("The version is a function of the values: the same for the same, another for any other")
    func version() throws {
        #expect(Settings().version == Settings().version)
        // Clients and stored events refer to the settings by this version, so it must not change by accident. It is the
        // 64-bit FNV-1a hash of the settings' JSON.
        #expect(Settings().version == "2dc2c112dbf76568")
        var versions: Set<String> = [Settings().version]
        for row in Self.rows {
            // Each round sets one setting to a value other than its default. Some settings limit each other, so the
            // value must also be valid beside the defaults of the others.
            versions.insert(
                try make([
                    row.variable: row.variable == "NATIVE_HARD_TIMEOUT_SECONDS"
                        ? "901" : row.field.hasSuffix("mps") ? "2" : "31"
                ]).version)
        }
        #expect(versions.count == 1 + Self.rows.count)
    }
}
