import JourneyModel
package import MetricInstruments
import Synchronization

extension MetricFamily {
    package static let settingsInfo = MetricFamily(
        "dwell_settings_info", "1, with the version of the settings in force as a label.")
    package static let settingsRulesInForce = MetricFamily(
        "dwell_settings_rules_in_force", "Rules of SETTINGS_RULES_FILE whose time has begun and is not over.")
}

/// The settings in force, and the rules that give some drivers other settings. A reload replaces both together, so no
/// request sees old settings with new rules.
///
/// `/native/config` returns a driver's settings. Each new event is stored with the version of its driver's settings.
package final class CurrentSettings: Sendable {
    private struct InForce: Sendable {
        var settings: VersionedSettings
        /// The settings as JSON, encoded once instead of for each request.
        var wireJSON: [UInt8]
        /// Nil if there is no file of rules.
        var rules: SettingsRules?

        init(_ settings: VersionedSettings, _ rules: SettingsRules?) {
            self.settings = settings
            self.rules = rules
            wireJSON = settings.settings.wireJSON
        }
    }

    private let current: Mutex<InForce>

    /// - Parameter rules: nil if there is no file of rules.
    package init(_ settings: VersionedSettings, rules: SettingsRules? = nil) {
        current = Mutex(InForce(settings, rules))
    }

    /// Returns the settings of every driver to whom no rule applies.
    package func read() -> VersionedSettings {
        current.withLock { $0.settings }
    }

    package func readRules() -> SettingsRules? {
        current.withLock { $0.rules }
    }

    package func readWithRules() -> (settings: VersionedSettings, rules: SettingsRules?) {
        current.withLock { ($0.settings, $0.rules) }
    }

    /// Returns the version and the JSON of the settings in force, and the rules. If there are no rules,
    /// `/native/config` returns this JSON to every driver.
    package func readWireJSON() -> (version: String, wireJSON: [UInt8], rules: SettingsRules?) {
        current.withLock { ($0.settings.version, $0.wireJSON, $0.rules) }
    }

    /// Returns the driver's settings. If rules name chargers, these are several settings, from which the store chooses
    /// by the event's charger.
    package func choice(for subject: SettingsSubject) -> SettingsChoice {
        let (settings, rules) = readWithRules()
        return rules?.choice(for: subject) ?? SettingsChoice(byCharger: [], otherwise: settings)
    }

    /// Puts these settings and rules in force for all later requests.
    package func replace(with settings: VersionedSettings, rules: SettingsRules? = nil) {
        let inForce = InForce(settings, rules)
        current.withLock { $0 = inForce }
    }
}
