// On SIGHUP, a reload reads the environment file again. The eight settings of the session engine, the settings rules,
// the public pages and the texts of alerts then take effect at once.
//
// Settings that are fixed at the start, for example addresses, keys and limits, do not change. An invalid file changes
// nothing.
//
// Unknown names and changes that need a restart are reported in the log, in /metrics, on /ops and by `dwell config
// history`.

import API
import Engine
import JourneyModel
import Logging
import Push
import StructuredLogging
import Synchronization

struct SettingsReload: Sendable {
    let input: ConfigurationInput
    let settings: CurrentSettings
    let pages: PublicPages
    /// Nil if the server sends no notifications.
    let texts: CurrentPushTexts?
    let status: SettingsStatus
    let clock: @Sendable () -> Moment
    let logger: Logger
    /// Whether there was an environment file at the start. If that file is missing at a reload, it is probably being
    /// replaced. The reload then fails, instead of resetting the settings to their defaults.
    let hadFile: Bool
    /// Called with the settings and rules that took effect, and with the note about their change. It must not block.
    var record: @Sendable (VersionedSettings, SettingsRules?, SettingsChangeNote) -> Void = { _, _, _ in }
    /// Called with the record of a reload that failed or that did not apply everything in the file. It must not block.
    var recordIncomplete: @Sendable (SettingsReloadRecord) -> Void = { _ in }

    func run() {
        let report = Configuration.report(from: input)
        guard report.hasFile || !hadFile else {
            let problem = "environment file missing; previous settings stay in effect"
            logger.error("settings not reloaded: environment file missing; previous settings stay in effect")
            return failed([problem])
        }
        guard let configuration = report.configuration else {
            let problems = report.problems.map { "\($0)" }
            logger.error(
                "settings not reloaded; previous settings stay in effect",
                metadata: ["problems": .array(problems.map { "\($0)" })])
            return failed(problems)
        }
        let (before, rulesBefore) = settings.readWithRules()
        let after = VersionedSettings(configuration.settings)
        let rules = configuration.settingsRules
        let needsRestart = status.reloaded(report, at: clock())
        let changedPages = pages.replace(with: configuration.links.pages)
        if !changedPages.isEmpty {
            logger.notice(
                "pages reloaded", metadata: ["pages": "\(changedPages.map(\.path).joined(separator: ", "))"])
        }
        if let texts, let push = configuration.push, texts.replace(with: push.texts) {
            logger.notice("texts of alerts reloaded")
        }
        if after.version == before.version, rules?.version == rulesBefore?.version {
            logger.notice("settings reloaded; no changes", metadata: ["version": "\(after.version)"])
        } else {
            settings.replace(with: after, rules: rules)
            record(after, rules, configuration.settingsNote)
            var metadata: Logger.Metadata = [
                "version": "\(after.version)", "previous_version": "\(before.version)",
                "changes": .array(Self.changes(from: before.settings, to: after.settings).map { "\($0)" }),
            ]
            if rules?.version != rulesBefore?.version {
                metadata["rules_version"] = "\(rules?.version ?? "none")"
                metadata["rules"] = .array((rules?.entries ?? []).map { "\($0.rule.name): \($0.rule.reason)" })
            }
            if let changedBy = configuration.settingsNote.changedBy { metadata["changed_by"] = "\(changedBy)" }
            if let reason = configuration.settingsNote.reason { metadata["reason"] = "\(reason)" }
            logger.notice("settings reloaded", metadata: metadata)
        }
        log(needsRestart: needsRestart, unknown: report.unknown)
    }

    private func failed(_ problems: [String]) {
        let now = clock()
        status.failed(problems, at: now)
        recordIncomplete(SettingsReloadRecord(at: now, isGood: false, details: problems))
    }

    private func log(needsRestart: [String], unknown: [UnknownVariable]) {
        if !needsRestart.isEmpty {
            logger.warning(
                "changed settings take effect after a restart",
                metadata: ["needs_restart": "\(needsRestart.joined(separator: ", "))"])
        }
        unknown.log(to: logger)
        let details =
            (needsRestart.isEmpty ? [] : ["needs a restart: \(needsRestart.joined(separator: ", "))"])
            + unknown.map { "\($0)" }
        if !details.isEmpty {
            recordIncomplete(SettingsReloadRecord(at: clock(), isGood: true, details: details))
        }
    }

    /// Returns one text per changed setting, such as `chargerIntentRadius_m 400 -> 500`.
    static func changes(from before: Settings, to after: Settings) -> [String] {
        Settings.declarations.compactMap { declaration in
            let (old, new) = (declaration.text(in: before), declaration.text(in: after))
            return old == new ? nil : "\(declaration.field) \(old) -> \(new)"
        }
    }
}

extension [UnknownVariable] {
    func log(to logger: Logger) {
        for variable in self { logger.warning("unknown setting", metadata: ["detail": "\(variable)"]) }
    }
}

/// Writes the history that `dwell config history` shows. A failed write is only logged, because the new settings are in
/// force nevertheless, and their version is stored with every event.
struct SettingsHistoryService: Sendable {
    let store: any SettingsHistoryStore
    let instance: String
    let clock: @Sendable () -> Moment
    let logger: Logger

    func record(_ settings: VersionedSettings, _ rules: SettingsRules?, note: SettingsChangeNote) async {
        await write { () async throws(StoreFailure) in
            guard try await !store.record(settings, rules: rules?.recorded, note: note, at: clock()) else { return }
            logger.warning(
                "settings note not recorded: an earlier change has the same note",
                metadata: [
                    "version": "\(settings.version)",
                    "variables": "\(Variables.settingsChangedBy.name), \(Variables.settingsChangeReason.name)",
                ])
        }
    }

    func record(_ reload: SettingsReloadRecord) async {
        await write { () async throws(StoreFailure) in try await store.record(reload, of: instance) }
    }

    private func write(_ body: () async throws(StoreFailure) -> Void) async {
        do throws(StoreFailure) {
            try await body()
        } catch {
            logger.error("writing the settings history failed", metadata: ["failure": "\(error)"])
        }
    }
}

/// Runs closures one after the other, in the order in which they were added.
///
/// The settings history needs this order, because two changes may wait for the database at the same time. If the later
/// change were recorded first, the newest entry would differ from the settings in force.
final class WorkInOrder: Sendable {
    private let last = Mutex<Task<Void, Never>?>(nil)

    func add(_ work: @escaping @Sendable () async -> Void) {
        last.withLock { last in
            let before = last
            last = Task {
                await before?.value
                await work()
            }
        }
    }
}
