// Tests of SETTINGS_RULES_FILE, and of the texts of `dwell config preview` and `dwell config history`. A problem in the
// file is reported with its line. If the server reloads a bad file, nothing changes.

import API
import Engine
import Foundation
import JourneyModel
import Logging
import Synchronization
import TestSupport
import Testing

@testable import App

@Suite struct SettingsRulesFileTests {
    private static let rules = """
        {
          "flags": {"newMap": false, "banner": "none"},
          "rules": [
            {"name": "pilot", "reason": "Test of the new map", "drivers": ["drv_1"], "flags": {"newMap": true}},
            {"name": "winter", "reason": "Cold batteries", "from": "2026-12-01T00:00:00Z",
             "settings": {"gracePeriodSeconds": 1200}, "flags": {"newMap": true}},
            {"name": "site", "reason": "Long way", "chargers": ["c-7"], "settings": {"gracePeriodSeconds": 1000}},
            {"name": "everybody", "reason": "New default", "settings": {"chargerDwellSeconds": 90}}
          ]
        }
        """

    @Test func withoutTheVariableThereAreNoRules() throws {
        let configuration = try #require(report().configuration)
        #expect(configuration.settingsRules == nil)
    }

    @Test func theFileIsReadOverTheBaseSettings() throws {
        try withFiles(["rules.json": Self.rules]) { folder in
            let report = report(["SETTINGS_RULES_FILE": folder + "/rules.json", "NATIVE_GRACE_PERIOD_SECONDS": "60"])
            let configuration = try #require(report.configuration)
            let rules = try #require(configuration.settingsRules)
            #expect(rules.base.settings.gracePeriodSeconds == 60 && rules.entries.count == 4)
            #expect(rules.entries[3].settings?.settings.gracePeriodSeconds == 60)
        }
    }

    @Test func everyProblemOfTheFileIsReportedWithItsLine() throws {
        let bad = Self.rules.replacing("1200", with: "5000").replacing(#""drivers""#, with: #""driver""#)
        try withFiles(["bad.json": bad, "long.json": String(repeating: " ", count: SettingsRules.bytesMax + 1)]) {
            folder in
            let problems = report(["SETTINGS_RULES_FILE": folder + "/bad.json"]).problems
            #expect(problems.count == 2 && problems.allSatisfy { $0.variable == "SETTINGS_RULES_FILE" })
            #expect(problems[0].description.contains("/bad.json line 4, rule pilot: unknown member \"driver\""))
            #expect(problems[1].description.contains("line 6, rule winter: gracePeriodSeconds=5000 is not allowed"))
            for (file, reason) in [("long.json", "more than 1048576 bytes"), ("none.json", "No such file")] {
                let problems = report(["SETTINGS_RULES_FILE": folder + "/" + file]).problems
                #expect(problems.count == 1 && problems[0].description.contains(reason), "\(problems)")
            }
        }
    }

    /// The rules are checked together with the base settings, because a rule may be valid with some base settings and
    /// invalid with others.
    @Test func theRulesAreJudgedWithTheBaseSettings() throws {
        try withFiles(["rules.json": Self.rules]) { folder in
            let file = folder + "/rules.json"
            let problems = report(["SETTINGS_RULES_FILE": file, "NATIVE_HARD_TIMEOUT_SECONDS": "1100"]).problems
            #expect(problems.count == 1 && problems[0].description.contains("rule winter: with the rule's settings"))
            // If the base settings are invalid, only they are reported.
            let base = report(["SETTINGS_RULES_FILE": file, "NATIVE_HARD_TIMEOUT_SECONDS": "x"]).problems
            #expect(base.map(\.variable) == ["NATIVE_HARD_TIMEOUT_SECONDS"])
        }
    }

    // MARK: Reload

    private final class Recorded: Sendable {
        let changes = Mutex<[(version: String, rules: String?)]>([])
        let incomplete = Mutex<[SettingsReloadRecord]>([])
    }

    @Test func aReloadPutsTheRulesInForceAndABadFileChangesNothing() throws {
        try withFiles(["rules.json": Self.rules]) { folder in
            let file = URL(filePath: folder + "/rules.json")
            let input = ConfigurationInput(
                environment: ["ENV_FILE": "/dev/null", "SETTINGS_RULES_FILE": file.path(percentEncoded: false)])
            let report = Configuration.report(from: input)
            let configuration = try #require(report.configuration)
            let settings = CurrentSettings(
                VersionedSettings(configuration.settings), rules: configuration.settingsRules)
            let status = SettingsStatus(report, at: .sample)
            let recorded = Recorded()
            let reload = SettingsReload(
                input: input, settings: settings, pages: PublicPages(), texts: nil, status: status, clock: { .sample },
                logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }), hadFile: false,
                record: { settings, rules, _ in
                    recorded.changes.withLock { $0.append((settings.version, rules?.version)) }
                },
                recordIncomplete: { record in recorded.incomplete.withLock { $0.append(record) } })
            let first = try #require(settings.readRules()).version
            reload.run()
            #expect(recorded.changes.withLock(\.count) == 0, "nothing changed")

            try Data(Self.rules.replacing("90", with: "0").utf8).write(to: file)
            reload.run()
            #expect(settings.readRules()?.version == first && !status.figures.isGood)
            let details = recorded.incomplete.withLock { $0.flatMap(\.details) }
            #expect(details.count == 1 && details[0].contains("line 8, rule everybody: chargerDwellSeconds=0"))

            try Data(Self.rules.replacing("90", with: "80").utf8).write(to: file)
            reload.run()
            let rules = try #require(settings.readRules())
            #expect(rules.version != first && rules.entries[3].settings?.settings.chargerDwellSeconds == 80)
            #expect(status.figures.isGood && status.figures.needsRestartCount == 0)
            #expect(recorded.changes.withLock { $0.map(\.rules) } == [rules.version])
        }
    }

    @Test func aLaterChangeIsRecordedAfterAnEarlierOneThatTakesLong() async {
        let (gate, openGate) = AsyncStream<Void>.makeStream()
        let (end, reachEnd) = AsyncStream<Void>.makeStream()
        let recorded = Recorded()
        let records = WorkInOrder()
        records.add {
            for await _ in gate {}
            recorded.changes.withLock { $0.append(("first", nil)) }
        }
        records.add {
            recorded.changes.withLock { $0.append(("second", nil)) }
            reachEnd.finish()
        }
        for _ in 0..<100 { await Task.yield() }
        #expect(recorded.changes.withLock(\.count) == 0)
        openGate.finish()
        for await _ in end {}
        #expect(recorded.changes.withLock { $0.map(\.version) } == ["first", "second"])
    }

    // MARK: Texts

    private func preview(_ driver: String, charger: String? = nil, at: String) throws -> String {
        let subject = SettingsSubject(
            driver: DriverID(driver), appVersion: nil, at: try #require(RFC3339.moment(from: at)))
        let rules = try SettingsRules(reading: Array(Self.rules.utf8), base: Settings())
        return SettingsPreview(rules: rules, subject: subject, charger: charger).text
    }

    @Test func thePreviewSaysWhichRuleMatchedAndWhyTheOthersDidNot() throws {
        let text = try preview("drv_1", charger: "c-7", at: "2026-11-30T23:59:59Z")
        let expected = """
            driver drv_1, charger c-7, no app version, at 2026-11-30T23:59:59.000Z

            RULE       MATCHES                                          REASON
            pilot      yes: sets newMap                                 Test of the new map
            winter     no: it begins at 2026-12-01T00:00:00.000Z        Cold batteries
            site       yes: its settings apply                          Long way
            everybody  yes: its settings come after another rule's      New default

            SETTING                      VALUE  FROM
            chargerIntentRadius_m        400    the base settings
            chargerAnchorRadius_m        30     the base settings
            chargerDwellSeconds          120    the base settings
            merchantUnlockRadius_m       40     the base settings
            gracePeriodSeconds           1000   site, instead of 900
            hardTimeoutSeconds           3600   the base settings
            locationAccuracyThreshold_m  50     the base settings
            speedThresholdForDwell_mps   1.5    the base settings

            FLAG    VALUE   FROM
            newMap  true    pilot
            banner  "none"  its default

            ETag "
            """
        func words(_ text: String) -> [[Substring]] {
            text.split(separator: "\n").map { $0.split(separator: " ") }
        }
        #expect(words(text).dropLast() == words(expected).dropLast(), "\(text)")
        #expect(text.contains(#"ETag "\#(Settings(gracePeriodSeconds: 1000).version)-"#))
        let later = try preview("drv_2", at: "2026-12-01T00:00:00Z")
        #expect(later.contains("winter, instead of 900") && later.contains("no: it does not list this driver"))
        #expect(later.contains("no: it is for certain chargers, and no charger is known"))
    }

    @Test func theHistoryNamesTheRulesThatChanged() throws {
        let rules = try SettingsRules(reading: Array(Self.rules.utf8), base: Settings())
        let wire = String(decoding: Settings().wireJSON, as: UTF8.self)
        let note = SettingsChangeNote()
        let changes = [
            SettingsChange(at: .sample, version: "v", settings: wire, note: note),
            SettingsChange(
                at: .sample.advanced(bySeconds: -1), version: "v", settings: wire, rules: rules.recorded, note: note),
            SettingsChange(at: .sample.advanced(bySeconds: -2), version: "v", settings: wire, note: note),
        ]
        let lines = SettingsHistoryText.text(changes, [], limit: 10).split(separator: "\n")
        #expect(lines[0].hasSuffix("v  no rules") && lines[2].hasSuffix("first known version"), "\(lines)")
        #expect(lines[1].hasSuffix("v  rules \(rules.version) (pilot, winter, site, everybody)"), "\(lines)")
        let json = SettingsHistoryText.json(changes, [], limit: 10)
        #expect(json.contains(#""rules_version":"\#(rules.version)""#))
    }
}
