// One of the servers that run on the same database.

package import JourneyModel

package struct Instance: Hashable, Sendable {
    /// Without a heartbeat for so long, it counts as gone.
    package static let silenceMilliseconds: Int64 = 100_000

    /// `INSTANCE_NAME`
    package var name: String
    /// Of Dwell.
    package var version: String
    package var settingsVersion: String
    /// What servers on one database should agree on, by name of variable; of a secret a keyed hash.
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

    /// Names of settings that the other one has otherwise, in alphabetical order. Secrets are compared only when both
    /// have the same signing key: their hashes depend on it.
    package func differences(from other: Instance, secretNames: Set<String>, signingKeyNames: Set<String>) -> [String] {
        let names = Set(settings.keys).union(other.settings.keys)
        let different = names.filter { settings[$0] != other.settings[$0] }
        let keys = different.intersection(signingKeyNames)
        return different.filter { keys.isEmpty || !secretNames.contains($0) || keys.contains($0) }.sorted()
    }
}
