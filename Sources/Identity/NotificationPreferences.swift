// The driver's choice of the alerts that a device shows (PUT /native/devices/{token}, member `notifications`). The
// choice has the same JSON form in the route, the database and the export.

package import JourneyModel

/// The alerts that a push message can show. Raw values are the names in `notifications` and in the file of texts
/// (`PUSH_TEXTS_FILE`).
package enum AlertKind: String, CaseIterable, Hashable, Sendable {
    /// A session has begun.
    case sessionActive = "session_active"
    /// The driver is at the merchant.
    case atMerchant = "at_merchant"
    /// The grace period ends in three minutes.
    case graceEnding = "grace_ending"
    /// The grace period or the hard timeout ended the session.
    case sessionExpired = "session_expired"
}

/// By default, a device shows every alert.
package struct NotificationPreferences: Hashable, Sendable {
    /// The name of the member that turns off all alerts.
    package static let quietName = "quiet"

    /// If true, no alert is shown, but background pushes and Live Activity updates are still sent.
    package var isQuiet: Bool
    package var muted: Set<AlertKind>

    package init(isQuiet: Bool = false, muted: Set<AlertKind> = []) {
        (self.isQuiet, self.muted) = (isQuiet, muted)
    }

    package func allows(_ kind: AlertKind) -> Bool { !isQuiet && !muted.contains(kind) }

    /// Reads the JSON object. A member that is absent or null has its default. Unknown members are ignored.
    ///
    /// If a known member is neither null nor a Boolean, the result is a failure with the name of the first such member.
    /// If `value` is not an object, the result is a failure with an empty name.
    package static func read(_ value: JSONValue) -> Result<NotificationPreferences, InvalidMember> {
        guard case .object = value else { return .failure(InvalidMember(name: "")) }
        var preferences = NotificationPreferences()
        for name in [quietName] + AlertKind.allCases.map(\.rawValue) {
            switch value[name] {
            case nil, .null?: continue
            case .bool(let isOn)?:
                if name == quietName {
                    preferences.isQuiet = isOn
                } else if !isOn, let kind = AlertKind(rawValue: name) {
                    preferences.muted.insert(kind)
                }
            default: return .failure(InvalidMember(name: name))
            }
        }
        return .success(preferences)
    }

    package struct InvalidMember: Error, Hashable, Sendable {
        package var name: String
    }

    /// The JSON object with all members, in a fixed order.
    package var json: String {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name(Self.quietName)
        writer.bool(isQuiet)
        for kind in AlertKind.allCases {
            writer.name(kind.rawValue)
            writer.bool(!muted.contains(kind))
        }
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
