// `dwell config preview`: shows which settings and flags one driver gets, and why.

import ArgumentParser
import Engine
import Foundation
import JourneyModel

struct ConfigPreviewCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "preview",
        abstract: "Show the settings that one driver gets, and the rules that decide it.",
        discussion: """
            Reads the settings and the file SETTINGS_RULES_FILE as a server would read them now, not those of a running \
            server. Lists every rule with its result: why it does not match, or what it sets. Then lists the settings \
            and flags that GET /native/config returns to this driver, and the rule from which each comes. Exits with \
            status 78 if the settings or the rules are invalid.

            EXAMPLES
              dwell config preview --driver drv_1
              dwell config preview --driver drv_1 --charger c-7 --app-version 7.2
              SETTINGS_RULES_FILE=new-rules.json dwell config preview --driver drv_1 --at 2026-12-01T00:00:00Z
            """)

    @Option(help: ArgumentHelp("The driver, as in the sub of its access token.", valueName: "id"))
    var driver: String

    @Option(help: ArgumentHelp("The charger (default: none).", valueName: "id"))
    var charger: String?

    @Option(help: ArgumentHelp("The version of the app (default: none).", valueName: "version"))
    var appVersion: String?

    @Option(help: ArgumentHelp("The time, in RFC 3339 (default: now).", valueName: "time"))
    var at: String?

    @OptionGroup var settingsOptions: SettingsOptions

    func validate() throws {
        guard !driver.isEmpty else { throw ValidationError("--driver must not be empty.") }
        if let appVersion, AppVersion(appVersion) == nil {
            throw ValidationError("--app-version must be \(AppVersion.allowed).")
        }
        if let at, RFC3339.moment(from: at) == nil {
            throw ValidationError("--at must be an RFC 3339 time, such as 2026-12-01T06:00:00Z.")
        }
    }

    func run() async throws {
        let configuration = try settingsOptions.configuration()
        let subject = SettingsSubject(
            driver: DriverID(driver), appVersion: appVersion.flatMap { AppVersion($0) },
            at: at.flatMap { RFC3339.moment(from: $0) } ?? .now)
        guard let rules = configuration.settingsRules else {
            writeToStandardError(
                "\(Variables.settingsRulesFile.name) is not set: every driver gets the same settings.\n")
            return print(String(decoding: configuration.settings.wireJSON, as: UTF8.self))
        }
        print(SettingsPreview(rules: rules, subject: subject, charger: charger).text)
    }
}

/// The output of `dwell config preview`.
struct SettingsPreview {
    let rules: SettingsRules
    let subject: SettingsSubject
    let charger: String?

    var text: String {
        [heading, Self.table(ruleRows), Self.table(settingRows), Self.table(flagRows), ending]
            .filter { !$0.isEmpty }.joined(separator: "\n\n")
    }

    private var heading: String {
        let version = subject.appVersion.map { "app version \($0)" } ?? "no app version"
        let charger = charger.map { "charger \(escaped($0))" } ?? "no charger"
        return "driver \(escaped(subject.driver.rawValue)), \(charger), \(version), at \(RFC3339.text(of: subject.at))"
    }

    private var findings: [(entry: SettingsRules.Entry, mismatch: SettingsMismatch?)] {
        rules.findings(for: subject, charger: charger)
    }

    private var ruleRows: [[String]] {
        var hasSettings = false
        var flags: Set<String> = []
        let rows = findings.map { entry, mismatch -> [String] in
            if let mismatch { return [entry.rule.name, "no: \(mismatch)", entry.rule.reason] }
            var parts: [String] = []
            if entry.settings != nil {
                parts.append(hasSettings ? "its settings come after another rule's" : "its settings apply")
                hasSettings = true
            }
            let names = entry.rule.flags.keys.sorted()
            let new = names.filter { flags.insert($0).inserted }
            if !new.isEmpty { parts.append("sets \(new.joined(separator: ", "))") }
            if names.count > new.count { parts.append("other flags come after another rule's") }
            return [entry.rule.name, "yes: " + parts.joined(separator: "; "), entry.rule.reason]
        }
        return rows.isEmpty ? [] : [["RULE", "MATCHES", "REASON"]] + rows
    }

    private var settingRows: [[String]] {
        let chosen = findings.first { $0.mismatch == nil && $0.entry.settings != nil }?.entry
        let settings = (chosen?.settings ?? rules.base).settings
        return [["SETTING", "VALUE", "FROM"]]
            + Settings.declarations.map { declaration in
                let value = declaration.text(in: settings)
                let isOfRule = chosen?.rule.values.contains { $0.field == declaration.field } ?? false
                guard isOfRule, let chosen else { return [declaration.field, value, "the base settings"] }
                let base = declaration.text(in: rules.base.settings)
                return [declaration.field, value, "\(chosen.rule.name), instead of \(base)"]
            }
    }

    private var flagRows: [[String]] {
        let values = rules.flags(for: subject, charger: charger)
        let rows = values.map { name, value -> [String] in
            let rule = findings.first { $0.mismatch == nil && $0.entry.rule.flags[name] != nil }?.entry.rule.name
            return [name, Self.text(value), rule ?? "its default"]
        }
        return rows.isEmpty ? [] : [["FLAG", "VALUE", "FROM"]] + rows
    }

    private var ending: String {
        let tag = rules.document(for: subject, charger: charger).tag
        return "ETag \"\(tag)\", rules \(rules.version)"
    }

    private static func text(_ value: FlagValue) -> String {
        switch value {
        case .bool(let value): "\(value)"
        case .text(let text): "\"\(escaped(text))\""
        }
    }

    private static func table(_ rows: [[String]]) -> String {
        let widths = (0..<2).map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }.joined(separator: "  ") + "  "
                + row[2]
        }.joined(separator: "\n")
    }
}
