import JourneyModel
package import MetricInstruments
import Synchronization

extension MetricFamily {
    package static let settingsInfo = MetricFamily(
        "dwell_settings_info", "1, with the version of the settings in force as a label.")
    package static let settingsRulesInForce = MetricFamily(
        "dwell_settings_rules_in_force", "Rules of SETTINGS_RULES_FILE whose time has begun and is not over.")
}

/// The settings in force, with the rules that give some drivers other settings. A reload replaces settings and rules
/// together, so no request sees a mixture of old and new ones.
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

    /// - Parameter rules: the rules that give some drivers other settings; nil if there is no file of rules.
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

    /// Returns the settings version, the eight settings as JSON, and the rules. If there are no rules (nil),
    /// `/native/config` returns this JSON to every driver. If there are rules, drivers may get different content.
    package func readWireJSON() -> (version: String, wireJSON: [UInt8], rules: SettingsRules?) {
        current.withLock { ($0.settings.version, $0.wireJSON, $0.rules) }
    }

    /// Returns the driver's settings, which may differ between chargers if the rules name chargers. When the store
    /// stores an event, it determines the event's charger and chooses the settings for that charger.
    package func choice(for subject: SettingsSubject) -> SettingsChoice {
        let (settings, rules) = readWithRules()
        return rules?.choice(for: subject) ?? SettingsChoice(byCharger: [], otherwise: settings)
    }

    /// Puts these settings and rules in force. Every later request uses them.
    package func replace(with settings: VersionedSettings, rules: SettingsRules? = nil) {
        let inForce = InForce(settings, rules)
        current.withLock { $0 = inForce }
    }
}
