// The history of the settings: when each version came into force, and the author and the reason of each change. The
// operator page and `dwell config history` show the history.
//
// The history also contains failed reloads, and reloads that could not apply a variable, for example because the
// variable needs a restart.

package import JourneyModel

/// The port by which a server writes the history.
package protocol SettingsHistoryStore: Sendable {
    /// Records that these settings and rules are in force from `now` on. Writes nothing if the newest entry has the
    /// same settings and rules, or if another server has recorded the change.
    ///
    /// If the note equals the last recorded note, it was written for an earlier change. The new change is then recorded
    /// without a note, and the method returns false.
    func record(
        _ settings: VersionedSettings, rules: RecordedRules?, note: SettingsChangeNote, at now: Moment
    ) async throws(StoreFailure) -> Bool

    /// Stores the result of a reload. `instance` is the server's INSTANCE_NAME.
    func record(_ reload: SettingsReloadRecord, of instance: String) async throws(StoreFailure)
}

/// The author of a change (`SETTINGS_CHANGED_BY`, at most 128 bytes) and its reason (`SETTINGS_CHANGE_REASON`, at most
/// 500 bytes). Both are free text on one line.
package struct SettingsChangeNote: Hashable, Sendable {
    package var changedBy: String?
    package var reason: String?

    package init(changedBy: String? = nil, reason: String? = nil) {
        (self.changedBy, self.reason) = (changedBy, reason)
    }

    package var isEmpty: Bool { changedBy == nil && reason == nil }
}

/// The rules of SETTINGS_RULES_FILE, as the history records them.
package struct RecordedRules: Hashable, Sendable {
    package var version: String
    /// The rules as JSON, in the form of `SettingsRules.summaryJSON`.
    package var json: String

    package init(version: String, json: String) {
        (self.version, self.json) = (version, json)
    }
}

/// An entry of the history: the settings and rules that came into force at a time. Each entry differs from the previous
/// one in its settings or in its rules.
package struct SettingsChange: Hashable, Sendable {
    package var at: Moment
    package var version: String
    /// The settings as JSON, as `GET /native/config` returns them.
    package var settings: String
    /// Nil if there were no rules.
    package var rules: RecordedRules?
    package var note: SettingsChangeNote

    package init(
        at: Moment, version: String, settings: String, rules: RecordedRules? = nil, note: SettingsChangeNote
    ) {
        (self.at, self.version, self.settings, self.rules) = (at, version, settings, rules)
        self.note = note
    }
}

/// A reload that did not take full effect. It failed, or some variables of the environment file were unknown or needed
/// a restart.
package struct SettingsReloadRecord: Hashable, Sendable {
    package var at: Moment
    /// False if the reload failed. A failed reload changes nothing.
    package var isGood: Bool
    /// One sentence for each error, one for each unknown variable, and one for all variables that need a restart.
    package var details: [String]

    package init(at: Moment, isGood: Bool, details: [String]) {
        (self.at, self.isGood, self.details) = (at, isGood, details)
    }
}

/// A reload, and the server that reloaded its settings.
package struct SettingsReloadOf: Hashable, Sendable {
    /// The server's `INSTANCE_NAME`.
    package var instance: String
    package var reload: SettingsReloadRecord

    package init(instance: String, reload: SettingsReloadRecord) {
        (self.instance, self.reload) = (instance, reload)
    }
}

/// The changes and the reloads of the settings, both with the newest entry first.
package struct SettingsHistory: Hashable, Sendable {
    package var changes: [SettingsChange]
    package var reloads: [SettingsReloadOf]

    package init(changes: [SettingsChange], reloads: [SettingsReloadOf]) {
        (self.changes, self.reloads) = (changes, reloads)
    }
}
