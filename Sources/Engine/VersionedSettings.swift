package import JourneyModel

/// The settings in force, with the version that is stored with every event meanwhile.
package struct VersionedSettings: Hashable, Sendable {
    package var settings: Settings
    /// The opaque tag of the strong ETag, without its quotes; a function of the eight values alone.
    package var version: String

    package init(settings: Settings, version: String) {
        self.settings = settings
        self.version = version
    }
}
