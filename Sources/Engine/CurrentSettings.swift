import JourneyModel
package import MetricInstruments
import Synchronization

extension MetricFamily {
    package static let settingsInfo = MetricFamily(
        "dwell_settings_info", "1, with the version of the settings in force as a label.")
}

/// The settings in force. Each new event is stored with the version of these settings, and `/native/config` returns the
/// settings. A reload replaces all settings at once, so no request sees a mixture of old and new settings.
package final class CurrentSettings: Sendable {
    private struct InForce: Sendable {
        var settings: VersionedSettings
        /// The settings as JSON, encoded once instead of for each request.
        var wireJSON: [UInt8]

        init(_ settings: VersionedSettings) {
            self.settings = settings
            wireJSON = settings.settings.wireJSON
        }
    }

    private let current: Mutex<InForce>

    package init(_ settings: VersionedSettings) {
        current = Mutex(InForce(settings))
    }

    package func read() -> VersionedSettings {
        current.withLock { $0.settings }
    }

    /// Returns the content of `/native/config`: the version, and the eight settings as JSON.
    package func readWireJSON() -> (version: String, wireJSON: [UInt8]) {
        current.withLock { ($0.settings.version, $0.wireJSON) }
    }

    /// Puts these settings in force. Every later request uses them.
    package func replace(with settings: VersionedSettings) {
        let inForce = InForce(settings)
        current.withLock { $0 = inForce }
    }
}
