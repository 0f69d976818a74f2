// One server, of possibly several that run on the same database.

package import JourneyModel

package struct Instance: Hashable, Sendable {
    /// An instance that has sent no heartbeat for this long counts as gone.
    package static let silenceMilliseconds: Int64 = 100_000

    /// `INSTANCE_NAME`
    package var name: String
    /// The version of Dwell.
    package var version: String
    package var settingsVersion: String
    /// The settings that servers on one database should share, by name of variable. A secret is a keyed hash here.
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

    /// Returns the names of the settings that differ between the two instances, in alphabetical order. If signing keys
    /// differ, they are returned and other secrets are not, because the hashes of secrets depend on the signing key.
    package func differences(from other: Instance, secretNames: Set<String>, signingKeyNames: Set<String>) -> [String] {
        let names = Set(settings.keys).union(other.settings.keys)
        let different = names.filter { settings[$0] != other.settings[$0] }
        let keys = different.intersection(signingKeyNames)
        return different.filter { keys.isEmpty || !secretNames.contains($0) || keys.contains($0) }.sorted()
    }
}
