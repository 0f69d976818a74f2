// Reads the JSON text in which both stores keep settings.

package import JourneyModel

extension Settings {
    /// Parses JSON of the form that `GET /native/config` returns. Returns nil if a value is missing or out of range.
    package init?(wireJSON: String) {
        guard let json = try? JSONValue.parse(Array(wireJSON.utf8)), let settings = Settings(configJSON: json) else {
            return nil
        }
        self = settings
    }
}
