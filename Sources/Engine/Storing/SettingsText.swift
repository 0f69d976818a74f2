// Reads settings from the JSON in which both stores keep them.

package import JourneyModel

extension Settings {
    /// Reads the settings as `GET /native/config` returns them. Returns nil if a value is missing or out of range.
    package init?(wireJSON: String) {
        guard let json = try? JSONValue.parse(Array(wireJSON.utf8)), let settings = Settings(configJSON: json) else {
            return nil
        }
        self = settings
    }
}
