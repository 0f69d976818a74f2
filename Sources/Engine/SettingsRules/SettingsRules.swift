// The rules of SETTINGS_RULES_FILE, and the base settings. The settings of every rule are computed and checked when the
// file is read, so a request needs only one pass over the rules.
//
// A request gets the settings of the first matching rule that has settings, or else the base settings. Each flag has
// its value from the first matching rule that has the flag, or else its default.
//
// The result depends only on the file, the base settings and the request. Servers with the same file and base settings
// therefore give the same result.

package import JourneyModel

/// A flag that the file declares. `standard` applies if no matching rule has the flag.
package struct SettingsFlag: Hashable, Sendable {
    package var name: String
    package var standard: FlagValue

    package init(name: String, standard: FlagValue) {
        (self.name, self.standard) = (name, standard)
    }
}

/// The settings of one driver at one time, for every possible charger.
package struct SettingsChoice: Sendable {
    package struct ForChargers: Sendable {
        package var chargers: IDSet
        package var settings: VersionedSettings
    }

    /// The first entry that contains the charger applies.
    package var byCharger: [ForChargers]
    /// The settings for all other chargers, and for events without a charger.
    package var otherwise: VersionedSettings

    package init(byCharger: [ForChargers], otherwise: VersionedSettings) {
        (self.byCharger, self.otherwise) = (byCharger, otherwise)
    }

    package func settings(charger: String?) -> VersionedSettings {
        guard let charger else { return otherwise }
        return byCharger.first { $0.chargers.contains(charger) }?.settings ?? otherwise
    }
}

package final class SettingsRules: Sendable {
    package struct Entry: Sendable {
        package let rule: SettingsRule
        /// The base settings with the rule's values; nil if the rule has only flags.
        package let settings: VersionedSettings?
        fileprivate let json: [UInt8]

        init(_ rule: SettingsRule, settings: Settings?) {
            self.rule = rule
            self.settings = settings.map { VersionedSettings($0) }
            json = settings?.wireJSON ?? []
        }
    }

    /// The settings without any rule.
    package let base: VersionedSettings
    /// In the order of the file.
    package let entries: [Entry]
    /// In the order of the file.
    package let flags: [SettingsFlag]
    /// The first 16 hexadecimal digits of the file's SHA-256, as `sha256sum` prints them.
    package let version: String
    /// Whether any rule depends on the version of the app.
    package let dependsOnAppVersion: Bool
    /// Whether two drivers can get different results for the same request.
    package let dependsOnDriver: Bool
    private let baseJSON: [UInt8]

    init(base: Settings, entries: [Entry], flags: [SettingsFlag], version: String) {
        self.base = VersionedSettings(base)
        self.entries = entries
        self.flags = flags
        self.version = version
        dependsOnAppVersion = entries.contains { $0.rule.versions != nil }
        dependsOnDriver = entries.contains { $0.rule.drivers != nil || $0.rule.share != nil }
        baseJSON = base.wireJSON
    }

    /// Returns the driver's settings for every possible charger.
    package func choice(for subject: SettingsSubject) -> SettingsChoice {
        var byCharger: [SettingsChoice.ForChargers] = []
        for entry in entries {
            guard let settings = entry.settings, entry.rule.mismatch(subject) == nil else { continue }
            guard let chargers = entry.rule.chargers else {
                return SettingsChoice(byCharger: byCharger, otherwise: settings)
            }
            byCharger.append(SettingsChoice.ForChargers(chargers: chargers, settings: settings))
        }
        return SettingsChoice(byCharger: byCharger, otherwise: base)
    }

    package func document(for subject: SettingsSubject, charger: String?) -> SettingsDocument {
        let matching = entries.filter { $0.rule.mismatch(charger: charger) == nil && $0.rule.mismatch(subject) == nil }
        let chosen = matching.first { $0.settings != nil }
        let version = (chosen?.settings ?? base).version
        let json = chosen?.json ?? baseJSON
        let nextChange = nextChange(after: subject.at)
        if flags.isEmpty { return SettingsDocument(tag: version, json: json, nextChange: nextChange) }
        let values = Self.json(flags.map { ($0.name, Self.value(of: $0, in: matching)) })
        return SettingsDocument(
            tag: "\(version)-\(Settings.tag(of: values))",
            json: json.dropLast() + Array(#","flags":"#.utf8) + values + [UInt8(ascii: "}")],
            nextChange: nextChange)
    }

    /// Returns the value of every flag for this request, in the order of the file.
    package func flags(for subject: SettingsSubject, charger: String?) -> [(name: String, value: FlagValue)] {
        let matching = entries.filter { $0.rule.mismatch(charger: charger) == nil && $0.rule.mismatch(subject) == nil }
        return flags.map { ($0.name, Self.value(of: $0, in: matching)) }
    }

    /// Returns every rule in the order of the file, with the first condition that the request does not meet. The
    /// condition is nil if the rule matches.
    package func findings(
        for subject: SettingsSubject, charger: String?
    ) -> [(entry: Entry, mismatch: SettingsMismatch?)] {
        entries.map { ($0, $0.rule.mismatch(subject) ?? $0.rule.mismatch(charger: charger)) }
    }

    /// The number of rules whose time has begun and is not over.
    package func inForceCount(at now: Moment) -> Int {
        entries.count { $0.rule.mismatch(at: now) == nil }
    }

    private func nextChange(after now: Moment) -> Moment? {
        entries.lazy.flatMap { [$0.rule.from, $0.rule.until] }.compactMap(\.self).filter { now < $0 }.min()
    }

    private static func value(of flag: SettingsFlag, in matching: [Entry]) -> FlagValue {
        matching.lazy.compactMap { $0.rule.flags[flag.name] }.first ?? flag.standard
    }

    private static func json(_ flags: [(name: String, value: FlagValue)]) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 256)
        writer.flags(flags)
        return writer.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func flags(_ flags: [(name: String, value: FlagValue)]) {
        beginObject()
        for (name, value) in flags {
            self.name(name)
            switch value {
            case .bool(let value): bool(value)
            case .text(let text): string(text)
            }
        }
        endObject()
    }
}

extension SettingsRules {
    /// The rules for the history of the settings.
    package var recorded: RecordedRules { RecordedRules(version: version, json: summaryJSON) }

    /// The rules as JSON for operators, in the order of the file. If a rule names drivers or chargers, the JSON
    /// contains only their number. The settings history therefore names no driver, and stays short.
    package var summaryJSON: String {
        var writer = JSONWriter(reservingBytes: 256 * entries.count + 16)
        writer.beginArray()
        for entry in entries { Self.write(entry.rule, &writer) }
        writer.endArray()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private static func write(_ rule: SettingsRule, _ writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("name", rule.name)
        writer.member("reason", rule.reason)
        if let from = rule.from { writer.member("from", RFC3339.text(of: from)) }
        if let until = rule.until { writer.member("until", RFC3339.text(of: until)) }
        if let share = rule.share {
            writer.name("percent")
            writer.raw(String(share.description.dropLast(2)))
        }
        if let drivers = rule.drivers {
            writer.name("drivers")
            writer.integer(drivers.count)
        }
        if let chargers = rule.chargers {
            writer.name("chargers")
            writer.integer(chargers.count)
        }
        switch rule.versions {
        case nil: break
        case .listed(let versions): writer.member("app_versions", versions.map { "\($0)" })
        case .range(let min, let below):
            if let min { writer.member("app_version_min", "\(min)") }
            if let below { writer.member("app_version_below", "\(below)") }
        }
        if !rule.values.isEmpty {
            writer.name("settings")
            writer.beginObject()
            for value in rule.values {
                writer.name(value.field)
                writer.raw(value.text)
            }
            writer.endObject()
        }
        if !rule.flags.isEmpty {
            writer.name("flags")
            writer.flags(rule.flags.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
        }
        writer.endObject()
    }
}

extension JSONWriter {
    fileprivate mutating func member(_ name: String, _ text: String) {
        self.name(name)
        string(text)
    }

    fileprivate mutating func member(_ name: String, _ texts: [String]) {
        self.name(name)
        beginArray()
        for text in texts { string(text) }
        endArray()
    }
}
