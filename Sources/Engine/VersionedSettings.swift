package import JourneyModel

/// The settings in force, under the name by which every event stored meanwhile remembers them.
package struct VersionedSettings: Hashable, Sendable {
    package var settings: Settings
    /// The opaque tag of the strong ETag, without its quotes; a function of the eight values alone.
    package var version: String

    package init(settings: Settings, version: String) {
        self.settings = settings
        self.version = version
    }
}
