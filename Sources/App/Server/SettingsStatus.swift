// The status of the server's settings. The log, /metrics, /ops and `dwell config show` report this status.

import API
import Foundation
import JourneyModel
import MetricInstruments
import StructuredLogging
import Synchronization

extension MetricFamily {
    static let settingsReloadSuccess = MetricFamily(
        "dwell_settings_reload_success", "1 if the last settings reload (or startup) succeeded, else 0.")
    static let settingsReloadTime = MetricFamily(
        "dwell_settings_reload_timestamp_seconds", "Load time of the settings in force (Unix time).")
    static let settingsNeedRestart = MetricFamily(
        "dwell_settings_restart_needed", "Changed settings that need a restart; 0 is normal.")
    static let settingsUnknown = MetricFamily(
        "dwell_settings_unknown", "Names in the environment file that look like mistyped settings; 0 is normal.")
}

final class SettingsStatus: Sendable {
    private struct State: Sendable {
        /// The settings in force, in the order in which the configuration reads them.
        var inForce: [ReadVariable]
        /// The names of changed settings that need a restart. The last successful reload found these changes in the
        /// file.
        var needsRestart: [String] = []
        var unknown: [UnknownVariable]
        var reload: ServerSettings.Reload?
        /// When the settings in force were read.
        var loadedAt: Moment
    }

    private let startedAt: Moment
    private let state: Mutex<State>

    init(_ report: ConfigurationReport, at now: Moment) {
        startedAt = now
        state = Mutex(State(inForce: report.variables, unknown: report.unknown, loadedAt: now))
    }

    /// Records a failed reload. The reload changed no setting.
    ///
    /// - Parameter problems: one sentence for each problem.
    func failed(_ problems: [String], at now: Moment) {
        state.withLock { state in
            state.reload = ServerSettings.Reload(at: now, isGood: false, problems: problems)
        }
    }

    /// Records a successful reload. Returns the names of the changed settings that need a restart
    /// (`Variables.isReloaded` is false). All other settings of `report` are now in force.
    func reloaded(_ report: ConfigurationReport, at now: Moment) -> [String] {
        state.withLock { state in
            var before: [String: ReadVariable] = [:]
            for variable in state.inForce { before[variable.declaration.name] = variable }
            var inForce: [ReadVariable] = []
            state.needsRestart = []
            for variable in report.variables {
                let name = variable.declaration.name
                guard !Variables.isReloaded(variable.declaration), let old = before[name] else {
                    inForce.append(variable)
                    continue
                }
                inForce.append(old)
                if old.text != variable.text { state.needsRestart.append(name) }
            }
            state.inForce = inForce
            state.unknown = report.unknown
            state.loadedAt = now
            state.reload = ServerSettings.Reload(at: now, isGood: true, problems: [])
            return state.needsRestart
        }
    }

    var inForce: [ReadVariable] { state.withLock(\.inForce) }

    /// The values that /metrics shows.
    var figures: (isGood: Bool, loadedAt: Moment, needsRestartCount: Int, unknownCount: Int) {
        state.withLock { state in
            (state.reload?.isGood ?? true, state.loadedAt, state.needsRestart.count, state.unknown.count)
        }
    }

    func read(instance: String) -> ServerSettings {
        state.withLock { state in
            ServerSettings(
                instance: instance, startedAt: startedAt, loadedAt: state.loadedAt, reload: state.reload,
                needsRestart: state.needsRestart,
                unknown: state.unknown.map { ServerSettings.Unknown(name: $0.name, nearest: $0.nearest) },
                settings: state.inForce.map { variable in
                    ServerSettings.Setting(
                        name: variable.declaration.name, value: variable.shown, source: "\(variable.source)")
                })
        }
    }
}
