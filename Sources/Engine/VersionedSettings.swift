package import JourneyModel

/// Settings and their version. The version of the settings in force is stored with every event.
package struct VersionedSettings: Hashable, Sendable {
    package var settings: Settings
    /// The opaque tag of the strong ETag, without its quotes. It depends only on the values of the eight settings.
    package var version: String

    package init(settings: Settings, version: String) {
        self.settings = settings
        self.version = version
    }

    /// Computes the version from the values.
    package init(_ settings: Settings) {
        self.init(settings: settings, version: settings.version)
    }
}
