// One running server. Several servers may run on the same database.

package import JourneyModel

/// The port of the table of servers. Each server on the database has one row in this table.
package protocol InstanceStore: Sendable {
    /// Inserts or updates the row of `instance`, and deletes rows without a recent heartbeat.
    func heartbeat(_ instance: Instance) async throws(StoreFailure)

    /// Deletes the row of a server that has ended. Keeps the row if a newer server with the same name has replaced it.
    func removeInstance(_ name: String, startedAt: Moment) async throws(StoreFailure)

    /// Returns the servers, sorted by name.
    func instances() async throws(StoreFailure) -> [Instance]
}

package struct Instance: Hashable, Sendable {
    /// An instance counts as gone when its last heartbeat is this old.
    package static let silenceMilliseconds: Int64 = 100_000

    /// The value of `INSTANCE_NAME`.
    package var name: String
    /// The version of Dwell.
    package var version: String
    package var settingsVersion: String
    /// The settings that all servers on one database should share, by the name of the variable. A secret is replaced by
    /// its keyed hash.
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

    /// Returns the names of the settings that differ, in alphabetical order. The hashes of secrets are keyed with the
    /// signing key. If the signing keys differ, the hashes of all secrets differ, so the other secrets are left out.
    package func differences(from other: Instance, secretNames: Set<String>, signingKeyNames: Set<String>) -> [String] {
        let names = Set(settings.keys).union(other.settings.keys)
        let different = names.filter { settings[$0] != other.settings[$0] }
        let keys = different.intersection(signingKeyNames)
        return different.filter { keys.isEmpty || !secretNames.contains($0) || keys.contains($0) }.sorted()
    }
}
