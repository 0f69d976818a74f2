// The history of the settings: when each version came into force, who changed it and why, and which reloads failed or
// left something without effect. The store writes and reads it; the operator page and `dwell config history` show it.

package import JourneyModel

/// `SETTINGS_CHANGED_BY` and `SETTINGS_CHANGE_REASON`. Free text on one line, at most 128 and 500 bytes.
package struct SettingsChangeNote: Hashable, Sendable {
    package var changedBy: String?
    package var reason: String?

    package init(changedBy: String? = nil, reason: String? = nil) {
        (self.changedBy, self.reason) = (changedBy, reason)
    }

    package var isEmpty: Bool { changedBy == nil && reason == nil }
}

/// A version of the settings that came into force.
package struct SettingsChange: Hashable, Sendable {
    package var at: Moment
    package var version: String
    /// The body of `GET /native/config`.
    package var settings: String
    package var note: SettingsChangeNote

    package init(at: Moment, version: String, settings: String, note: SettingsChangeNote) {
        (self.at, self.version, self.settings, self.note) = (at, version, settings, note)
    }
}

/// A reload that failed, or that left something in the environment file without effect.
package struct SettingsReloadRecord: Hashable, Sendable {
    package var at: Moment
    /// False: it changed nothing.
    package var isGood: Bool
    /// One sentence each.
    package var details: [String]

    package init(at: Moment, isGood: Bool, details: [String]) {
        (self.at, self.isGood, self.details) = (at, isGood, details)
    }
}

/// The reload of one server.
package struct SettingsReloadOf: Hashable, Sendable {
    /// INSTANCE_NAME of the server.
    package var instance: String
    package var reload: SettingsReloadRecord

    package init(instance: String, reload: SettingsReloadRecord) {
        (self.instance, self.reload) = (instance, reload)
    }
}

/// Newest first.
package struct SettingsHistory: Hashable, Sendable {
    package var changes: [SettingsChange]
    package var reloads: [SettingsReloadOf]

    package init(changes: [SettingsChange], reloads: [SettingsReloadOf]) {
        (self.changes, self.reloads) = (changes, reloads)
    }
}
