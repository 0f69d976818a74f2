// Reads settings from the JSON in which both stores keep them.

package import JourneyModel

extension Settings {
    /// Reads the settings as `GET /native/config` returns them. Returns nil if a value is missing or out of range.
    package init?(wireJSON: String) {
        guard case .object(let members)? = try? JSONValue.parse(Array(wireJSON.utf8)) else { return nil }
        var values: [String: String] = [:]
        for member in members {
            guard case .number(let text) = member.value,
                let declaration = Self.declarations.first(where: { $0.field == member.name })
            else { continue }
            values[declaration.variable] = text
        }
        guard values.count == Self.declarations.count, let settings = try? Self.make(from: { values[$0] }) else {
            return nil
        }
        self = settings
    }
}
