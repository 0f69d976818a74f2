// One of the servers running on the same database.

package import JourneyModel

package struct Instance: Hashable, Sendable {
    /// After this long without a heartbeat it counts as gone.
    package static let silenceMilliseconds: Int64 = 100_000

    /// `INSTANCE_NAME`
    package var name: String
    /// The version of Dwell.
    package var version: String
    package var settingsVersion: String
    /// The settings that servers on one database should share, by name of variable; for a secret a keyed hash.
    package var settings: [String: String]
    package var startedAt: Moment
    package var heartbeatAt: Moment

    package init(
        name: String, version: String, settingsVersion: String, settings: [String: String], startedAt: Moment,
        heartbeatAt: Moment
    ) {
        (self.name, self.version, self.settingsVersion) = (name, version, settingsVersion)
        (self.settings, self.startedAt, self.heartbeatAt) = (settings, startedAt, heartbeatAt)
    }

    package func isAlive(at now: Moment) -> Bool {
        now.milliseconds(since: heartbeatAt) < Self.silenceMilliseconds
    }

    /// Names of settings that differ from the other's, in alphabetical order. Secrets are compared only when both
    /// have the same signing key: their hashes depend on it.
    package func differences(from other: Instance, secretNames: Set<String>, signingKeyNames: Set<String>) -> [String] {
        let names = Set(settings.keys).union(other.settings.keys)
        let different = names.filter { settings[$0] != other.settings[$0] }
        let keys = different.intersection(signingKeyNames)
        return different.filter { keys.isEmpty || !secretNames.contains($0) || keys.contains($0) }.sorted()
    }
}
