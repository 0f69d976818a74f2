import JourneyModel
import Synchronization

/// The settings that events are stored with and that `/native/config` answers, exchanged as a whole when an
/// operator reloads them: no request sees half of an old set and half of a new one.
package final class SettingsInForce: Sendable {
    private struct InForce: Sendable {
        var settings: VersionedSettings
        /// Encoded once, and not for each phone that asks.
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

    /// What `/native/config` answers: the version, and the eight values as JSON.
    package func readWireJSON() -> (version: String, wireJSON: [UInt8]) {
        current.withLock { ($0.settings.version, $0.wireJSON) }
    }

    /// Puts other settings in force for every request from now on.
    package func replace(with settings: VersionedSettings) {
        let inForce = InForce(settings)
        current.withLock { $0 = inForce }
    }
}
