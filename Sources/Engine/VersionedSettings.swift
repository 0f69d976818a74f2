package import JourneyModel

/// Settings, with the version that is stored with every event while they are in force.
package struct VersionedSettings: Hashable, Sendable {
    package var settings: Settings
    /// The opaque tag of the strong ETag, without its quotes. It depends only on the eight values.
    package var version: String

    package init(settings: Settings, version: String) {
        self.settings = settings
        self.version = version
    }
}
