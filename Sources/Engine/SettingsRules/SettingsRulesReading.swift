// Reads the JSON file SETTINGS_RULES_FILE. People edit the file by hand, so each error message names the line, the rule
// and the value. At most `problemsMax` problems are reported at once.

import Crypto
package import JourneyModel

extension SettingsRules {
    /// The maximum size of the file in bytes.
    package static let bytesMax = 1_048_576
    static let problemsMax = 20
    static let rulesMax = 64
    static let flagsMax = 64
    /// The maximum number of ids in one list.
    static let idsMax = 10_000
    static let flagTextBytesMax = 1024

    /// Parses the file's content. The settings of a rule are the base settings, overridden by the rule's values. Throws
    /// if the file is not valid, or if the settings of a rule contradict each other.
    package convenience init(reading text: [UInt8], base: Settings) throws(SettingsRulesError) {
        let document: LocatedJSON
        do throws(JSONError) {
            document = try LocatedJSON.parse(text)
        } catch {
            let line = LocatedJSON.line(ofOffset: error.offset, in: text)
            throw SettingsRulesError(problems: [SettingsRulesProblem(line: line, rule: nil, detail: error.detail)])
        }
        var reader = SettingsRulesReader(text: text, base: base)
        let (entries, flags) = reader.read(document)
        guard reader.problems.isEmpty else { throw SettingsRulesError(problems: reader.problems) }
        let hash = text.withUnsafeBytes { SHA256.hash(data: $0) }
        let version = hash.prefix(8).hexadecimal
        self.init(base: base, entries: entries, flags: flags, version: version)
    }
}

struct SettingsRulesReader {
    let text: [UInt8]
    private let base: Settings
    private var flags: [SettingsFlag] = []
    /// The rule that is being read.
    var rule: String?
    var problems: [SettingsRulesProblem] = []

    init(text: [UInt8], base: Settings) {
        (self.text, self.base) = (text, base)
    }

    mutating func read(_ document: LocatedJSON) -> (entries: [SettingsRules.Entry], flags: [SettingsFlag]) {
        guard let members = members(of: document, "the file", allowed: ["flags", "rules"]) else { return ([], []) }
        if let flags = members["flags"] { readFlags(flags) }
        var entries: [SettingsRules.Entry] = []
        guard let rules = members["rules"] else { return ([], flags) }
        guard case .array(let elements) = rules.content, elements.count <= SettingsRules.rulesMax else {
            refuse(rules, "rules", "an array of at most \(SettingsRules.rulesMax) rules")
            return ([], flags)
        }
        var names: Set<String> = []
        for (index, element) in elements.enumerated() {
            rule = Self.validName(of: element) ?? "number \(index + 1)"
            if let entry = readRule(element, &names) { entries.append(entry) }
            rule = nil
        }
        return (entries, flags)
    }

    // MARK: Flags

    private mutating func readFlags(_ value: LocatedJSON) {
        guard case .object(let members) = value.content, members.count <= SettingsRules.flagsMax else {
            return refuse(value, "flags", "an object of at most \(SettingsRules.flagsMax) flags")
        }
        for member in members {
            guard Self.isName(member.name) else {
                note(
                    member.nameOffset, "the flag \(Self.shown(member.name)) is not allowed; allowed is \(Self.nameRule)"
                )
                continue
            }
            guard let standard = Self.flagValue(member.value) else {
                refuse(member.value, member.name, Self.flagRule)
                continue
            }
            flags.append(SettingsFlag(name: member.name, standard: standard))
        }
    }

    private static let flagRule = "true, false, or a text of at most \(SettingsRules.flagTextBytesMax) bytes"

    private static func flagValue(_ value: LocatedJSON) -> FlagValue? {
        switch value.content {
        case .scalar(.bool(let value)): .bool(value)
        case .scalar(.string(let text)) where text.utf8.count <= SettingsRules.flagTextBytesMax: .text(text)
        default: nil
        }
    }

    private mutating func ruleFlags(_ value: LocatedJSON?) -> [String: FlagValue] {
        guard let value else { return [:] }
        guard case .object(let members) = value.content, !members.isEmpty else {
            refuse(value, "flags", "an object with at least one flag")
            return [:]
        }
        var found: [String: FlagValue] = [:]
        for member in members {
            guard let declared = flags.first(where: { $0.name == member.name }) else {
                note(member.nameOffset, "the flag \(Self.shown(member.name)) is not declared in the file's flags")
                continue
            }
            switch (declared.standard, Self.flagValue(member.value)) {
            case (.bool, .bool(let value)?): found[member.name] = .bool(value)
            case (.text, .text(let text)?): found[member.name] = .text(text)
            case (.bool, _): refuse(member.value, member.name, "true or false, like the flag's declaration")
            case (.text, _):
                refuse(
                    member.value, member.name,
                    "a text of at most \(SettingsRules.flagTextBytesMax) bytes, like the flag's declaration")
            }
        }
        return found
    }

    // MARK: Rules

    private static let ruleMembers = [
        "name", "reason", "from", "until", "percent", "drivers", "chargers", "app_versions", "app_version_min",
        "app_version_below", "settings", "flags",
    ]

    private mutating func readRule(_ element: LocatedJSON, _ names: inout Set<String>) -> SettingsRules.Entry? {
        guard let members = members(of: element, "a rule", allowed: Self.ruleMembers) else { return nil }
        let problemsBefore = problems.count
        let name = readName(members["name"], of: element, &names)
        let reason = required(members["reason"], "reason", of: element, "a text of 1 to 500 bytes on one line") {
            text in
            (1...500).contains(text.utf8.count) && !text.unicodeScalars.contains(where: Self.isControl) ? text : nil
        }
        let from = time(members["from"], "from")
        let until = time(members["until"], "until")
        if let from, let until, until <= from, let value = members["until"] {
            refuse(value, "until", "a time after from")
        }
        let share = readShare(members["percent"])
        let drivers = ids(members["drivers"], "drivers")
        let chargers = ids(members["chargers"], "chargers")
        let versions = readVersions(members)
        let values = readValues(members["settings"])
        let flags = ruleFlags(members["flags"])
        if members["settings"] == nil, members["flags"] == nil {
            note(element.offset, "the rule changes nothing; it must have settings, flags or both")
        }
        guard problems.count == problemsBefore, let name, let reason else { return nil }
        let rule = SettingsRule(
            name: name, reason: reason, from: from, until: until, share: share, drivers: drivers, chargers: chargers,
            versions: versions, values: values, flags: flags)
        guard !values.isEmpty else { return SettingsRules.Entry(rule, settings: nil) }
        return settings(of: values, at: members["settings"]?.offset ?? element.offset).map {
            SettingsRules.Entry(rule, settings: $0)
        }
    }

    /// Returns the rule's name for the problems found in the rule. Returns nil if the rule has no valid name; its
    /// problems then mention its number.
    private static func validName(of element: LocatedJSON) -> String? {
        guard case .object(let members) = element.content,
            case .scalar(.string(let name))? = members.first(where: { $0.name == "name" })?.value.content
        else { return nil }
        return isName(name) ? name : nil
    }

    private mutating func readName(
        _ value: LocatedJSON?, of element: LocatedJSON, _ names: inout Set<String>
    ) -> String? {
        let name = required(value, "name", of: element, Self.nameRule) { Self.isName($0) ? $0 : nil }
        guard let name, let value else { return nil }
        if names.insert(name).inserted { return name }
        refuse(value, "name", "a name that no other rule has")
        return nil
    }

    private mutating func time(_ value: LocatedJSON?, _ name: String) -> Moment? {
        optional(value, name, "a time of RFC 3339, such as 2026-12-01T06:00:00Z") { RFC3339.moment(from: $0) }
    }

    private mutating func readShare(_ value: LocatedJSON?) -> SettingsShare? {
        guard let value else { return nil }
        if case .scalar(.number(let text)) = value.content, let share = SettingsShare(percent: text) { return share }
        refuse(value, "percent", SettingsShare.allowed)
        return nil
    }

    private mutating func ids(_ value: LocatedJSON?, _ name: String) -> IDSet? {
        let texts = list(value, name, max: SettingsRules.idsMax, "ids of 1 to 128 characters") { text in
            (1...128).contains(text.unicodeScalars.count) && !text.unicodeScalars.contains(where: Self.isControl)
                ? text : nil
        }
        return texts.map(IDSet.init)
    }

    private mutating func readVersions(_ members: [String: LocatedJSON]) -> AppVersionCondition? {
        let listed = list(members["app_versions"], "app_versions", max: 100, AppVersion.allowed) { AppVersion($0) }
        let min = optional(members["app_version_min"], "app_version_min", AppVersion.allowed) { AppVersion($0) }
        let below = optional(members["app_version_below"], "app_version_below", AppVersion.allowed) { AppVersion($0) }
        if let min, let below, below <= min, let value = members["app_version_below"] {
            refuse(value, "app_version_below", "a version after app_version_min")
        }
        if let value = members["app_versions"], members["app_version_min"] ?? members["app_version_below"] != nil {
            note(value.offset, "app_versions cannot be combined with app_version_min or app_version_below")
        }
        if let listed { return .listed(listed) }
        return min == nil && below == nil ? nil : .range(min: min, below: below)
    }

    // MARK: Settings

    private mutating func readValues(_ value: LocatedJSON?) -> [SettingsRule.Value] {
        guard let value else { return [] }
        guard case .object(let members) = value.content, !members.isEmpty else {
            refuse(value, "settings", "an object with at least one setting")
            return []
        }
        var values: [SettingsRule.Value] = []
        for member in members {
            guard let declaration = Settings.declarations.first(where: { $0.field == member.name }) else {
                let names = Settings.declarations.map(\.field).joined(separator: ", ")
                note(member.nameOffset, "unknown setting \(Self.shown(member.name)); allowed is one of \(names)")
                continue
            }
            guard case .scalar(.number(let text)) = member.value.content, declaration.accepts(text) else {
                refuse(member.value, member.name, "a number \(declaration.allowed)")
                continue
            }
            values.append(SettingsRule.Value(field: declaration.field, variable: declaration.variable, text: text))
        }
        return values
    }

    /// Returns the base settings, overridden by the rule's values. If the resulting settings contradict each other,
    /// records the problems and returns nil.
    private mutating func settings(of values: [SettingsRule.Value], at offset: Int) -> Settings? {
        do {
            return try Settings.make(over: base) { variable in values.first { $0.variable == variable }?.text }
        } catch {
            for error in error.errors { note(offset, "with the rule's settings, \(error)") }
            return nil
        }
    }
}
