// Formats a driver as text or as JSON. Its functions are pure.

import JourneyModel
import SharedTables

enum DriverText {
    static func text(_ driver: DriverRecord) -> String {
        var rows = [
            ("name", driver.name), ("email", driver.email), ("apple email", driver.appleEmail), ("phone", driver.phone),
            ("role", driver.role), ("since", RFC3339.text(of: driver.createdAt)),
        ]
        rows.append(("signed in", "\(driver.signInSessions) sessions\(last("last used", driver.lastUsedAt))"))
        rows.append(("devices", "\(driver.devices)"))
        rows.append(("state", driver.state.rawValue))
        rows.append(("events", "\(driver.events)\(last("last received", driver.lastReceivedAt))"))
        let lines = rows.compactMap { name, value in
            value.map { "  " + name + String(repeating: " ", count: 13 - name.count) + escaped($0) }
        }
        return ([escaped(driver.id.rawValue)] + lines).joined(separator: "\n")
    }

    private static func last(_ what: String, _ moment: Moment?) -> String {
        moment.map { ", \(what) \(RFC3339.text(of: $0))" } ?? ""
    }

    static func json(_ drivers: [DriverRecord]) -> String {
        var writer = JSONWriter(reservingBytes: 64 + 512 * drivers.count)
        func member(_ name: String, _ text: String?) {
            writer.name(name)
            if let text { writer.string(text) } else { writer.null() }
        }
        func member(_ name: String, _ number: Int) {
            writer.name(name)
            writer.integer(Int64(number))
        }
        writer.beginObject()
        writer.name("drivers")
        writer.beginArray()
        for driver in drivers {
            writer.beginObject()
            member("id", driver.id.rawValue)
            member("created_at", RFC3339.text(of: driver.createdAt))
            member("name", driver.name)
            member("email", driver.email)
            member("apple_email", driver.appleEmail)
            member("phone", driver.phone)
            member("role", driver.role)
            member("sign_in_sessions", driver.signInSessions)
            member("last_used_at", driver.lastUsedAt.map(RFC3339.text(of:)))
            member("devices", driver.devices)
            member("state", driver.state.rawValue)
            member("events", driver.events)
            member("last_received_at", driver.lastReceivedAt.map(RFC3339.text(of:)))
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
