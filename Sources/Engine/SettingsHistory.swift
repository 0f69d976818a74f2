// The history of the settings: when each version came into force, who changed the settings and why, and which reloads
// failed or left a variable without effect. The store keeps this history; the operator page and `dwell config history`
// show it.

package import JourneyModel

/// `SETTINGS_CHANGED_BY` (at most 128 bytes) and `SETTINGS_CHANGE_REASON` (at most 500 bytes); free text on one line.
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

/// A reload that failed, or that left a part of the environment file without effect.
package struct SettingsReloadRecord: Hashable, Sendable {
    package var at: Moment
    /// False if the reload failed and changed nothing.
    package var isGood: Bool
    /// What failed or had no effect, one sentence each.
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

/// Changes and reloads of the settings, each newest first.
package struct SettingsHistory: Hashable, Sendable {
    package var changes: [SettingsChange]
    package var reloads: [SettingsReloadOf]

    package init(changes: [SettingsChange], reloads: [SettingsReloadOf]) {
        (self.changes, self.reloads) = (changes, reloads)
    }
}
