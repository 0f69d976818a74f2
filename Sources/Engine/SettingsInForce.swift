import JourneyModel
import Synchronization

/// The settings that events are stored with and that `/native/config` answers, exchanged as a whole when an
/// operator reloads them: no request sees half of an old set and half of a new one.
package final class SettingsInForce: Sendable {
    private let current: Mutex<VersionedSettings>

    package init(_ settings: VersionedSettings) {
        current = Mutex(settings)
    }

    package func read() -> VersionedSettings {
        current.withLock { $0 }
    }

    /// Puts other settings in force for every request from now on.
    package func replace(with settings: VersionedSettings) {
        current.withLock { $0 = settings }
    }
}
