// `dwell config history`: shows when each version of the settings took effect, and what it changed.

import ArgumentParser
import Engine
import Foundation
import JourneyModel
import SQLiteStore
import SharedTables

struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Show the settings of the running server, their history, or those of one driver; try other settings.",
        subcommands: [
            ConfigHistoryCommand.self, ConfigShowCommand.self, ConfigPreviewCommand.self, ConfigTryCommand.self,
        ])
}

struct ConfigHistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "Show the history of the session settings.",
        discussion: """
            Lists, newest first, each start or SIGHUP that changed settings, and each SIGHUP that failed or found \
            unknown names or settings that need a restart. An entry shows who made the change and why, if \
            SETTINGS_CHANGED_BY and SETTINGS_CHANGE_REASON were set. Also lists the corrections of settings that dwell \
            refold made. The version is the ETag of GET /native/config \
            and is stored with every event. Reads only the database, so it works with or without a running server.

            EXAMPLES
              dwell config history
              dwell config history --json | jq '.changes[0].settings'
            """)

    @Option(help: ArgumentHelp("Number of entries, 1 to 10000.", valueName: "n"))
    var limit = 50

    @Flag(help: "Print JSON instead of a table.")
    var json = false

    @OptionGroup var settingsOptions: SettingsOptions

    func validate() throws {
        guard (1...SettingsRows.changesMax).contains(limit) else {
            throw ValidationError("--limit must be a whole number from 1 to \(SettingsRows.changesMax).")
        }
    }

    func run() async throws {
        let input = ConfigurationInput(overrides: settingsOptions.overrides)
        // Do not require a valid configuration, because an operator needs the history most when the environment file is
        // invalid. Reading the history needs only the database and, with PostgreSQL, the signing key.
        let configuration = Configuration.report(from: input).partial
        let (changes, reloads, corrections) = try await history(configuration)
        print(
            json
                ? SettingsHistoryText.json(changes, reloads, corrections, limit: limit)
                : SettingsHistoryText.text(changes, reloads, corrections, limit: limit))
    }

    /// Reads one change more than `limit`, because the oldest change in the output is compared with the change before
    /// it.
    private func history(
        _ configuration: Configuration
    ) async throws -> ([SettingsChange], [SettingsReloadOf], [SettingsCorrection]) {
        if case .sqlite(let path) = configuration.database {
            return try reading(path) { (records: SettingsRecords) throws(RecordsUnreadable) in
                (
                    try records.changes(limit: limit + 1), try records.reloads(limit: limit),
                    try records.corrections(limit: limit)
                )
            }
        }
        return try await changing(configuration) { stores, _ in
            let history = try await stores.operatorReader.settingsHistory(limit: limit + 1)
            let corrections = try await stores.refolds.settingsCorrections(limit: limit)
            return (history.changes, Array(history.reloads.prefix(limit)), corrections)
        }
    }
}

/// Formats the history as text or as JSON. Its functions are pure.
enum SettingsHistoryText {
    static func text(
        _ changes: [SettingsChange], _ reloads: [SettingsReloadOf], _ corrections: [SettingsCorrection] = [], limit: Int
    ) -> String {
        guard !changes.isEmpty || !reloads.isEmpty || !corrections.isEmpty else {
            return "No settings history: no server has run on this database since recording began."
        }
        let lines =
            changeLines(changes, limit: limit) + reloads.map { ($0.reload.at, line($0)) }
            + corrections.map { ($0.at, line($0)) }
        return lines.sorted { $0.at > $1.at }.prefix(limit).map(\.text).joined(separator: "\n")
    }

    private static func line(_ entry: SettingsReloadOf) -> String {
        let what = entry.reload.isGood ? "reload (\(entry.instance))" : "reload failed (\(entry.instance))"
        return "\(RFC3339.text(of: entry.reload.at))  \(what)  \(entry.reload.details.joined(separator: "; "))"
    }

    private static func line(_ correction: SettingsCorrection) -> String {
        let until = RFC3339.text(of: correction.until)
        let parts = [
            RFC3339.text(of: correction.at),
            "correction \(correction.id)\(correction.finishedAt == nil ? " (unfinished)" : "")",
            "events received from \(RFC3339.text(of: correction.since)) to \(until)"
                + (correction.insteadOf.map { ", stored with \($0)" } ?? ""),
            "folded with \(correction.version ?? "the settings stored with them")", text(correction.note),
        ]
        return parts.compactMap(\.self).joined(separator: "  ")
    }

    private static func changeLines(_ changes: [SettingsChange], limit: Int) -> [(at: Moment, text: String)] {
        changes.indices.prefix(limit).map { index in
            let change = changes[index]
            let changed = index + 1 < changes.count ? differences(from: changes[index + 1], to: change) : nil
            let what = changed.map { $0.isEmpty ? "no change" : $0.joined(separator: ", ") }
            let parts = [RFC3339.text(of: change.at), change.version, what ?? "first known version"]
            return (change.at, (parts + [text(change.note)].compactMap(\.self)).joined(separator: "  "))
        }
    }

    /// Returns the version and the names of the rules, such as `rules 0123456789abcdef (winter-grace, pilot)`.
    private static func rulesText(_ rules: RecordedRules?) -> String {
        guard let rules else { return "no rules" }
        var names: [String] = []
        if case .array(let list)? = try? JSONValue.parse(Array(rules.json.utf8)) {
            for case .string(let name)? in list.map({ $0["name"] }) { names.append(name) }
        }
        return "rules \(rules.version) (\(names.joined(separator: ", ")))"
    }

    /// Returns the author and the reason of a change, such as `by Ann: why`. Returns nil when neither is known.
    private static func text(_ note: SettingsChangeNote) -> String? {
        let changedBy = note.changedBy.map { "by \($0)" }
        let parts = [changedBy, note.reason].compactMap(\.self)
        return parts.isEmpty ? nil : parts.joined(separator: ": ")
    }

    static func json(
        _ changes: [SettingsChange], _ reloads: [SettingsReloadOf], _ corrections: [SettingsCorrection] = [], limit: Int
    ) -> String {
        var writer = JSONWriter(reservingBytes: 64 + 512 * changes.count)
        writer.beginObject()
        writer.name("changes")
        writer.beginArray()
        for change in changes.prefix(limit) {
            writer.beginObject()
            writer.name("at")
            writer.string(RFC3339.text(of: change.at))
            writer.name("settings_version")
            writer.string(change.version)
            if let changedBy = change.note.changedBy {
                writer.name("changed_by")
                writer.string(changedBy)
            }
            if let reason = change.note.reason {
                writer.name("reason")
                writer.string(reason)
            }
            writer.name("settings")
            writer.raw(change.settings)
            if let rules = change.rules {
                writer.name("rules_version")
                writer.string(rules.version)
                writer.name("rules")
                writer.raw(rules.json)
            }
            writer.endObject()
        }
        writer.endArray()
        writer.name("reloads")
        writer.beginArray()
        for entry in reloads {
            writer.beginObject()
            writer.name("at")
            writer.string(RFC3339.text(of: entry.reload.at))
            writer.name("instance")
            writer.string(entry.instance)
            writer.name("is_good")
            writer.bool(entry.reload.isGood)
            writer.name("details")
            writer.beginArray()
            for detail in entry.reload.details { writer.string(detail) }
            writer.endArray()
            writer.endObject()
        }
        writer.endArray()
        writer.name("corrections")
        writer.beginArray()
        for correction in corrections { write(correction, to: &writer) }
        writer.endArray()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private static func write(_ correction: SettingsCorrection, to writer: inout JSONWriter) {
        writer.beginObject()
        for (name, text) in [
            ("at", RFC3339.text(of: correction.at)), ("received_since", RFC3339.text(of: correction.since)),
            ("received_until", RFC3339.text(of: correction.until)), ("settings_version", correction.version),
            ("instead_of", correction.insteadOf), ("changed_by", correction.note.changedBy),
            ("reason", correction.note.reason), ("finished_at", correction.finishedAt.map(RFC3339.text(of:))),
        ] {
            guard let text else { continue }
            writer.name(name)
            writer.string(text)
        }
        writer.endObject()
    }

    /// Returns one text per changed setting, such as `chargerIntentRadius_m 400 -> 500`, in the order in which the
    /// contract lists the settings. If the rules changed, the last text describes the new rules.
    private static func differences(from before: SettingsChange, to after: SettingsChange) -> [String] {
        let (old, new) = (values(before), values(after))
        let settings = Settings.declarations.compactMap { declaration -> String? in
            let (was, isNow) = (old[declaration.field], new[declaration.field])
            return was == isNow ? nil : "\(declaration.field) \(was ?? "none") -> \(isNow ?? "none")"
        }
        return settings + (before.rules == after.rules ? [] : [rulesText(after.rules)])
    }

    /// Returns the settings after the change, by name. Each value is the stored number as text.
    private static func values(_ change: SettingsChange) -> [String: String] {
        guard case .object(let members)? = try? JSONValue.parse(Array(change.settings.utf8)) else { return [:] }
        return members.reduce(into: [:]) { values, member in
            if case .number(let text) = member.value { values[member.name] = text }
        }
    }
}
