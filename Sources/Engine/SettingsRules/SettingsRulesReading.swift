// Reads the file SETTINGS_RULES_FILE. It is JSON that people edit, so every problem names the line, the rule and the
// value. All problems are reported together.

import Crypto
package import JourneyModel

package struct SettingsRulesProblem: Hashable, Sendable, CustomStringConvertible {
    /// The line in the file; the first line is 1.
    package var line: Int
    /// The name of the rule, or its number if it has no valid name; nil outside of the rules.
    package var rule: String?
    package var detail: String

    package var description: String {
        "line \(line)" + (rule.map { ", rule \($0)" } ?? "") + ": \(detail)"
    }
}

/// The file cannot be used.
package struct SettingsRulesError: Error, Hashable, Sendable {
    /// In the order of the checks, at least one and at most `problemsMax`.
    package var problems: [SettingsRulesProblem]
}

extension SettingsRules {
    /// The largest file, in bytes.
    package static let bytesMax = 1_048_576
    static let problemsMax = 20
    static let rulesMax = 64
    static let flagsMax = 64
    /// The maximum number of ids in one list.
    static let idsMax = 10_000
    static let flagTextBytesMax = 1024

    /// Reads the file's content. Checks every combination of settings that can come out: the base settings with the
    /// values of each rule.
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

private struct SettingsRulesReader {
    private let text: [UInt8]
    private let base: Settings
    private var flags: [SettingsFlag] = []
    /// The rule that is being read.
    private var rule: String?
    private(set) var problems: [SettingsRulesProblem] = []

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

    /// Returns the name of a rule if it has a valid one, so that all problems of the rule can name it.
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

    /// Returns the base settings with the rule's values. Records a problem if two of the values contradict each other.
    private mutating func settings(of values: [SettingsRule.Value], at offset: Int) -> Settings? {
        do {
            return try Settings.make(over: base) { variable in values.first { $0.variable == variable }?.text }
        } catch {
            for error in error.errors { note(offset, "with the rule's settings, \(error)") }
            return nil
        }
    }

    // MARK: Values

    private mutating func members(
        of value: LocatedJSON, _ what: String, allowed: [String]
    ) -> [String: LocatedJSON]? {
        guard case .object(let members) = value.content else {
            note(value.offset, "\(what) must be a JSON object")
            return nil
        }
        var found: [String: LocatedJSON] = [:]
        for member in members {
            if allowed.contains(member.name) {
                found[member.name] = member.value
            } else {
                note(
                    member.nameOffset,
                    "unknown member \(Self.shown(member.name)); allowed is one of \(allowed.joined(separator: ", "))")
            }
        }
        return found
    }

    private mutating func required<Value>(
        _ value: LocatedJSON?, _ name: String, of element: LocatedJSON, _ allowed: String, _ read: (String) -> Value?
    ) -> Value? {
        if value == nil { note(element.offset, "\(name) is missing; allowed is \(allowed)") }
        return optional(value, name, allowed, read)
    }

    private mutating func optional<Value>(
        _ value: LocatedJSON?, _ name: String, _ allowed: String, _ read: (String) -> Value?
    ) -> Value? {
        guard let value else { return nil }
        if case .scalar(.string(let text)) = value.content, let result = read(text) { return result }
        refuse(value, name, allowed)
        return nil
    }

    /// Reads an array of texts that must all be different.
    private mutating func list<Value: Hashable>(
        _ value: LocatedJSON?, _ name: String, max: Int, _ allowed: String, _ read: (String) -> Value?
    ) -> [Value]? {
        guard let value else { return nil }
        guard case .array(let elements) = value.content, (1...max).contains(elements.count) else {
            refuse(value, name, "an array of 1 to \(max) texts")
            return nil
        }
        var found: [Value] = []
        var seen: Set<Value> = []
        for element in elements {
            guard case .scalar(.string(let text)) = element.content, let result = read(text) else {
                refuse(element, name, allowed)
                continue
            }
            if seen.insert(result).inserted { found.append(result) } else { refuse(element, name, "each only once") }
        }
        return found
    }

    // MARK: Problems

    private mutating func refuse(_ value: LocatedJSON, _ name: String, _ allowed: String) {
        note(value.offset, "\(name)=\(Self.shown(value)) is not allowed; allowed is \(allowed)")
    }

    private mutating func note(_ offset: Int, _ detail: String) {
        guard problems.count < SettingsRules.problemsMax else { return }
        let line = LocatedJSON.line(ofOffset: offset, in: text)
        problems.append(SettingsRulesProblem(line: line, rule: rule, detail: detail))
    }

    private static func shown(_ value: LocatedJSON) -> String {
        switch value.content {
        case .array: "[...]"
        case .object: "{...}"
        case .scalar(.string(let text)): shown(text)
        case .scalar(.number(let text)): text
        case .scalar(.bool(let value)): "\(value)"
        case .scalar: "null"
        }
    }

    /// Returns the first 64 characters of the text in quotes, with control characters escaped.
    private static func shown(_ text: String) -> String {
        let scalars = text.unicodeScalars.prefix(64).map { isControl($0) ? $0.escaped(asASCII: true) : String($0) }
        return "\"\(scalars.joined())\"" + (text.unicodeScalars.count > 64 ? "..." : "")
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .format: true
        default: false
        }
    }

    // MARK: Names

    private static let nameRule = "a name of 1 to 64 letters, digits, dots, hyphens and underscores"

    private static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "-._".utf8.contains($0) }
    }
}
