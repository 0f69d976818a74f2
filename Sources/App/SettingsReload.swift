// SIGHUP: the environment file is read again, and the eight settings of the session engine take effect for every
// request from then on. What was fixed at the start (addresses, keys, limits) stays; a bad file changes nothing.

import Engine
import JourneyModel
import Logging
import SQLiteStore

struct SettingsReload: Sendable {
    let input: ConfigurationInput
    let settings: SettingsInForce
    let logger: Logger
    /// Whether there was an environment file at the start. One that is gone since is being replaced, and must not
    /// put every setting back to its default.
    let hadFile: Bool
    /// Told of settings that came into force; does not wait.
    var record: @Sendable (VersionedSettings) -> Void = { _ in }

    func run() {
        let report = Configuration.report(from: input)
        guard report.hasFile || !hadFile else {
            logger.error("settings not reloaded: the environment file is gone, the old ones stay in force")
            return
        }
        guard let configuration = report.configuration else {
            logger.error(
                "settings not reloaded: the old ones stay in force",
                metadata: ["problems": .array(report.problems.map { "\($0)" })])
            return
        }
        let before = settings.read()
        let after = VersionedSettings(configuration.settings)
        guard after.version != before.version else {
            logger.notice("settings reloaded: none has changed", metadata: ["version": "\(after.version)"])
            return
        }
        settings.replace(with: after)
        record(after)
        logger.notice(
            "settings reloaded",
            metadata: [
                "version": "\(after.version)", "previous_version": "\(before.version)",
                "changes": .array(Self.changes(from: before.settings, to: after.settings).map { "\($0)" }),
            ])
    }

    /// One line per changed setting: `chargerIntentRadius_m 400 -> 500`.
    static func changes(from before: Settings, to after: Settings) -> [String] {
        Settings.declarations.compactMap { declaration in
            let (old, new) = (declaration.text(in: before), declaration.text(in: after))
            return old == new ? nil : "\(declaration.field) \(old) -> \(new)"
        }
    }
}

extension VersionedSettings {
    init(_ settings: Settings) {
        self.init(settings: settings, version: settings.version)
    }
}

/// Keeps the history that `dwell config history` shows. What cannot be written is logged: the settings are in force all
/// the same, and stand with every event stored under them.
struct SettingsHistoryKeeping: Sendable {
    let store: SQLiteEventStore
    let clock: @Sendable () -> Moment
    let logger: Logger

    func record(_ settings: VersionedSettings) async {
        do throws(StoreFailure) {
            try await store.record(settings, at: clock())
        } catch {
            logger.error("the history of settings was not written", metadata: ["failure": "\(error)"])
        }
    }
}
