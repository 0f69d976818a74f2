// Tests of the rules that give some drivers other settings: who gets which settings and flags, and that the choice is
// stable. Every mistake in the file must be reported with its line and rule.

import Engine
import JourneyModel
import TestSupport
import Testing

struct SettingsRulesTests {
    private static let now = Moment.sample

    private func rules(_ text: String, base: Settings = Settings()) throws -> SettingsRules {
        try SettingsRules(reading: Array(text.utf8), base: base)
    }

    private func subject(
        _ driver: String = "d", version: String? = nil, at: Moment = now
    ) -> SettingsSubject {
        SettingsSubject(driver: DriverID(driver), appVersion: version.flatMap { AppVersion($0) }, at: at)
    }

    private func grace(_ rules: SettingsRules, _ subject: SettingsSubject, charger: String? = nil) -> Int {
        rules.choice(for: subject).settings(charger: charger).settings.gracePeriodSeconds
    }

    /// Returns the rules of a file with one rule, which sets the grace period to 1200 for everybody who meets
    /// `conditions`.
    private func one(_ conditions: String) throws -> SettingsRules {
        try rules(
            """
            {"rules": [{"name": "one", "reason": "r", \(conditions) "settings": {"gracePeriodSeconds": 1200}}]}
            """)
    }

    // MARK: Conditions

    @Test func `a rule without conditions applies to everybody, a file without rules to nobody`() throws {
        #expect(grace(try one(""), subject()) == 1200)
        for empty in ["{}", #"{"rules":[]}"#] { #expect(grace(try rules(empty), subject()) == 900) }
    }

    @Test func `a rule applies from the millisecond of from to the one before until`() throws {
        let rules = try one(#""from": "2026-11-16T20:00:00Z", "until": "2026-11-16T21:00:00+00:00","#)
        let until = Self.now.advanced(bySeconds: 3600)
        for (at, expected) in [
            (Self.now.advanced(byMilliseconds: -1), 900), (Self.now, 1200),
            (until.advanced(byMilliseconds: -1), 1200), (until, 900),
        ] {
            #expect(grace(rules, subject(at: at)) == expected, "\(RFC3339.text(of: at))")
        }
        #expect(rules.inForceCount(at: Self.now) == 1 && rules.inForceCount(at: until) == 0)
        let changes = [Self.now.advanced(byMilliseconds: -1), Self.now, until].map {
            rules.document(for: subject(at: $0), charger: nil).nextChange
        }
        #expect(changes == [Self.now, until, nil])
    }

    @Test func `drivers and chargers are compared byte by byte`() throws {
        let drivers = try one(#""drivers": ["a", "\u00e9"],"#)
        #expect(grace(drivers, subject("a")) == 1200 && grace(drivers, subject("\u{E9}")) == 1200)
        #expect(grace(drivers, subject("A")) == 900 && grace(drivers, subject("e\u{301}")) == 900)
        let chargers = try one(#""chargers": ["c-7"],"#)
        #expect(grace(chargers, subject(), charger: "c-7") == 1200)
        #expect(grace(chargers, subject(), charger: "c-8") == 900 && grace(chargers, subject()) == 900)
    }

    @Test(arguments: [
        (#""app_versions": ["7.2", "8.0.1"],"#, ["7.2", "7.2.0.0", "8.0.1"], ["7.2.1", "7", "8.0", "8.0.10"]),
        (#""app_version_min": "7.2","#, ["7.2", "7.10", "7.2.0.1", "8"], ["7.1.99", "0"]),
        (#""app_version_below": "7.2","#, ["7.1.99", "0", "6"], ["7.2", "7.2.0", "7.10"]),
        (#""app_version_min": "7.2", "app_version_below": "7.10","#, ["7.2", "7.9.9"], ["7.10", "7.1"]),
    ])
    func `versions are compared number by number`(conditions: String, yes: [String], no: [String]) throws {
        let rules = try one(conditions)
        #expect(rules.dependsOnAppVersion)
        for version in yes { #expect(grace(rules, subject(version: version)) == 1200, "\(version)") }
        for version in no { #expect(grace(rules, subject(version: version)) == 900, "\(version)") }
        #expect(grace(rules, subject()) == 900, "no version")
    }

    @Test(arguments: ["", "7.", ".7", "7-beta", "v7", "7.2 (451)", "1.2.3.4.5", "1234567890", "-1", "７"])
    func `other texts are no version`(text: String) {
        #expect(AppVersion(text) == nil)
    }

    // MARK: Shares

    @Test func `a larger share keeps every driver of a smaller one`() throws {
        let shares = try ["0", "0.5", "10", "20", "99.999", "100"].map { try one(#""percent": \#($0),"#) }
        var counts = Array(repeating: 0, count: shares.count)
        for number in 0..<10_000 {
            let isIn = shares.map { grace($0, subject("drv_\(number)")) == 1200 }
            #expect(zip(isIn, isIn.dropFirst()).allSatisfy { !$0 || $1 }, "drv_\(number): \(isIn)")
            for index in isIn.indices where isIn[index] { counts[index] += 1 }
        }
        #expect(counts[0] == 0 && counts[5] == 10_000)
        // The counts are the same in every run, because the drivers are. They may differ from the expected counts by
        // four standard deviations of a random choice.
        for (count, expected, difference) in [(counts[1], 50, 28), (counts[2], 1000, 120), (counts[3], 2000, 160)] {
            #expect(abs(count - expected) <= difference, "\(counts)")
        }
    }

    /// The expected positions come from another program: the first 64 bits of `printf 'one\0drv_1' | sha256sum`, times
    /// 100,000, divided by 2^64.
    @Test func `the position of a driver never changes`() {
        #expect(SettingsShare.position(of: DriverID("drv_1"), inRule: "one") == 84849)
        #expect(SettingsShare.position(of: DriverID("drv_1"), inRule: "two") == 82196)
        #expect(SettingsShare.position(of: DriverID("\u{E9}"), inRule: "one") == 41469)
    }

    @Test func `rules of different names choose independently`() throws {
        let both = (0..<10_000).count { number in
            ["one", "two"].allSatisfy {
                SettingsShare.position(of: DriverID("drv_\(number)"), inRule: $0) < SettingsShare.positions / 10
            }
        }
        #expect((60...140).contains(both), "a tenth of a tenth of 10,000 drivers, not \(both)")
    }

    // MARK: First match

    private static let several = """
        {
          "flags": {"newMap": false, "banner": ""},
          "rules": [
            {"name": "flags-only", "reason": "r", "drivers": ["a"], "flags": {"newMap": true}},
            {"name": "site", "reason": "r", "chargers": ["c-7"], "settings": {"hardTimeoutSeconds": 1800}},
            {"name": "listed", "reason": "r", "drivers": ["a", "b"], "settings": {"gracePeriodSeconds": 600},
             "flags": {"newMap": false, "banner": "Hi \\u00e9"}},
            {"name": "all", "reason": "r", "settings": {"gracePeriodSeconds": 700}}
          ]
        }
        """

    @Test func `settings come from the first matching rule with settings, each flag from the first with that flag`()
        throws
    {
        let rules = try rules(Self.several)
        let expected: [(driver: String, charger: String?, grace: Int, hard: Int, newMap: Bool, banner: String)] = [
            ("a", nil, 600, 3600, true, "Hi \u{E9}"), ("a", "c-7", 900, 1800, true, "Hi \u{E9}"),
            ("b", nil, 600, 3600, false, "Hi \u{E9}"), ("b", "c-8", 600, 3600, false, "Hi \u{E9}"),
            ("c", nil, 700, 3600, false, ""), ("c", "c-7", 900, 1800, false, ""),
        ]
        for row in expected {
            let settings = rules.choice(for: subject(row.driver)).settings(charger: row.charger).settings
            #expect(settings.gracePeriodSeconds == row.grace && settings.hardTimeoutSeconds == row.hard, "\(row)")
            let document = rules.document(for: subject(row.driver), charger: row.charger)
            let flags = #""flags":{"newMap":\#(row.newMap),"banner":"\#(row.banner)"}}"#
            let text = String(decoding: document.json, as: UTF8.self)
            #expect(text.hasSuffix("," + flags), "\(row): \(text)")
            #expect(text.hasPrefix(String(decoding: settings.wireJSON.dropLast(), as: UTF8.self)), "\(row): \(text)")
        }
        #expect(
            rules.findings(for: subject("c"), charger: nil).map(\.mismatch) == [
                .otherDriver, .noCharger, .otherDriver, nil,
            ])
    }

    @Test func `the tag is the version of the settings, and with flags also a hash of the flags`() throws {
        let without = try one("")
        var settings = Settings()
        settings.gracePeriodSeconds = 1200
        #expect(without.document(for: subject(), charger: nil).tag == settings.version)
        #expect(without.document(for: subject(), charger: nil).json == settings.wireJSON)
        let rules = try rules(Self.several)
        let tags = ["a", "b", "c"].map { rules.document(for: subject($0), charger: "c-7").tag }
        settings = Settings(hardTimeoutSeconds: 1800)
        #expect(tags.allSatisfy { $0.hasPrefix(settings.version + "-") } && Set(tags).count == 3, "\(tags)")
    }

    @Test func `two servers with the same file and base agree, and the version is the file's`() throws {
        let (one, other) = (try rules(Self.several), try rules(Self.several))
        for number in 0..<100 {
            let subject = subject("drv_\(number)")
            #expect(one.document(for: subject, charger: "c-7") == other.document(for: subject, charger: "c-7"))
        }
        #expect(one.version == other.version && one.version.count == 16)
        let reformatted = try rules(Self.several + "\n")
        #expect(one.version != reformatted.version)
    }

    @Test func `the base settings show through where a rule has no value`() throws {
        let rules = try rules(Self.several, base: Settings(chargerDwellSeconds: 99))
        #expect(rules.choice(for: subject("a")).settings(charger: nil).settings.chargerDwellSeconds == 99)
    }

    @Test func `the summary for operators has no ids`() throws {
        let summary = try rules(Self.several).summaryJSON
        #expect(summary.contains(#""drivers":2"#) && summary.contains(#""chargers":1"#), "\(summary)")
        #expect(!summary.contains(#""a""#) && !summary.contains("c-7"))
        #expect(try one(#""percent": 12.50,"#).summaryJSON.contains(#""percent":12.5,"#))
    }

    // MARK: Bad files

    private static func rule(_ more: String, settings: String = #"{"chargerDwellSeconds": 90}"#) -> String {
        """
        {"flags": {"f": true, "t": "x"}, "rules": [
        {"name": "n", "reason": "r",
        \(more)
        "settings": \(settings)}]}
        """
    }

    static let bad: [(text: String, problem: String)] = [
        ("", "line 1: The JSON text is incomplete"), ("{\n\"rules\": [}", "line 2: Unexpected byte"),
        ("{\n\"rules\": 1,\n\"rules\": 2}", "line 3: A member name appears twice"),
        ("[]", "line 1: the file must be a JSON object"),
        ("{\n\"rule\": []}", #"line 2: unknown member "rule"; allowed is one of flags, rules"#),
        ("{\"rules\":\n{}}", "line 2: rules={...} is not allowed; allowed is an array of at most 64 rules"),
        ("{\"rules\": [\n3]}", "line 2, rule number 1: a rule must be a JSON object"),
        ("{\"flags\": []}", "line 1: flags=[...] is not allowed"),
        ("{\"flags\": {\n\"a b\": true}}", #"line 2: the flag "a b" is not allowed"#),
        ("{\"flags\": {\n\"a\": 3}}", "line 2: a=3 is not allowed; allowed is true, false, or a text"),
        (#"{"rules": [{"settings": {"chargerDwellSeconds": 90}, "reason": "r"}]}"#, "rule number 1: name is missing"),
        (#"{"rules": [{"name": "n", "settings": {"chargerDwellSeconds": 90}}]}"#, "rule n: reason is missing"),
        (#"{"rules": [{"name": "n", "reason": "r"}]}"#, "rule n: the rule changes nothing"),
        (
            #"{"rules": [{"name": "a b", "reason": "r", "settings": {"chargerDwellSeconds": 90}}]}"#,
            #"name="a b" is not"#
        ),
        (rule(#""reasn": "x","#), #"line 3, rule n: unknown member "reasn""#),
        (rule(#""from": "tomorrow","#), #"line 3, rule n: from="tomorrow" is not allowed; allowed is a time"#),
        (rule(#""from": 5,"#), "line 3, rule n: from=5 is not allowed"),
        (
            rule("\"from\": \"2026-12-01T00:00:00Z\",\n\"until\": \"2026-12-01T00:00:00Z\","),
            "line 4, rule n: until=\"2026-12-01T00:00:00Z\" is not allowed; allowed is a time after from"
        ),
        (rule(#""percent": 101,"#), "line 3, rule n: percent=101 is not allowed; allowed is a number from 0 to 100"),
        (rule(#""percent": 1e1,"#), "percent=1e1"), (rule(#""percent": -1,"#), "percent=-1"),
        (rule(#""percent": 0.0001,"#), "percent=0.0001"), (rule(#""percent": "10","#), #"percent="10""#),
        (rule(#""drivers": [],"#), "line 3, rule n: drivers=[...] is not allowed; allowed is an array of 1 to 10000"),
        (rule(#""drivers": ["a", 5],"#), "drivers=5 is not allowed"),
        (rule(#""drivers": ["a", "a"],"#), #"drivers="a" is not allowed; allowed is each only once"#),
        (rule(#""chargers": [""],"#), #"chargers="" is not allowed"#), (rule(#""chargers": "c","#), #"chargers="c""#),
        (rule(#""app_versions": ["7-beta"],"#), #"app_versions="7-beta" is not allowed"#),
        (rule(#""app_version_min": "x","#), #"app_version_min="x" is not allowed"#),
        (
            rule(#""app_version_min": "7.2", "app_version_below": "7.2.0","#),
            "allowed is a version after app_version_min"
        ),
        (rule(#""app_versions": ["1"], "app_version_min": "2","#), "app_versions cannot be combined"),
        (rule("", settings: "{}"), "line 4, rule n: settings={...} is not allowed"),
        (rule("", settings: "{\n\"gracePeriod\": 5}"), #"line 5, rule n: unknown setting "gracePeriod""#),
        (
            rule("", settings: "{\n\"gracePeriodSeconds\": 3601}"),
            "line 5, rule n: gracePeriodSeconds=3601 is not allowed; allowed is a number 0 < n <= 3600"
        ),
        (rule("", settings: #"{"chargerDwellSeconds": 1.5}"#), "chargerDwellSeconds=1.5"),
        (rule("", settings: #"{"chargerDwellSeconds": "90"}"#), #"chargerDwellSeconds="90""#),
        (
            rule("", settings: #"{"hardTimeoutSeconds": 600}"#),
            "line 4, rule n: with the rule's settings, NATIVE_GRACE_PERIOD_SECONDS=900 is not allowed"
        ),
        (
            rule("", settings: #"{"chargerAnchorRadius_m": 50, "chargerIntentRadius_m": 40}"#),
            "NATIVE_CHARGER_ANCHOR_RADIUS_M=50 is not allowed"
        ),
        (rule(#""flags": {},"#), "flags={...} is not allowed; allowed is an object with at least one flag"),
        (rule(#""flags": {"g": true},"#), #"the flag "g" is not declared"#),
        (rule(#""flags": {"f": "yes"},"#), #"f="yes" is not allowed; allowed is true or false"#),
        (rule(#""flags": {"t": true},"#), "t=true is not allowed; allowed is a text"),
    ]

    @Test(arguments: bad.indices)
    func `a bad file is rejected with the line, the rule and the mistake`(index: Int) throws {
        let (text, problem) = Self.bad[index]
        let error = #expect(throws: SettingsRulesError.self) { try rules(text) }
        let problems = error?.problems.map(\.description) ?? []
        #expect(problems.count == 1 && problems.first?.contains(problem) == true, "\(problems)")
        let found = try #require(error?.problems.first)
        #expect((1...text.split(separator: "\n", omittingEmptySubsequences: false).count).contains(found.line))
        // In a file that `rule` returns, the mistake is in the rule "n", which begins on line 2.
        if text.contains(#"{"name": "n", "reason": "r",\#n"#) { #expect(found.rule == "n" && found.line >= 2) }
    }

    @Test func `up to twenty problems are reported together, without control characters of the file`() {
        let text = #"{"rules": [{"name": "n", "reason": "a\nb", "percent": 200, "x\u001b": 1, "flags": {"f": 1}}, 7]}"#
        let error = #expect(throws: SettingsRulesError.self) { try rules(text) }
        #expect(error?.problems.count == 5)
        #expect(error?.problems.allSatisfy { !$0.description.contains { $0 == "\u{1B}" || $0 == "\n" } } == true)
        let many = "{" + (0..<100).map { "\"m\($0)\": 1" }.joined(separator: ",") + "}"
        let tooMany = #expect(throws: SettingsRulesError.self) { try rules(many) }
        #expect(tooMany?.problems.count == 20)
    }

    @Test func `names are unique`() {
        let rule = #"{"name": "n", "reason": "r", "settings": {"chargerDwellSeconds": 90}}"#
        let error = #expect(throws: SettingsRulesError.self) { try rules("{\"rules\": [\(rule),\n\(rule)]}") }
        #expect(
            error?.problems.map(\.description) == [
                #"line 2, rule n: name="n" is not allowed; allowed is a name that no other rule has"#
            ])
    }
}
