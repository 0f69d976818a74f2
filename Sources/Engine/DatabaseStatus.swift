// Facts about the database as a whole, for the server's start, /readyz, the metrics and /ops.

package import JourneyModel

package protocol DatabaseStatus: Sendable {
    /// Makes a test write, and returns when it is on disk.
    func checkWritable() async throws(StoreFailure)

    /// Returns the applied schema.
    ///
    /// - Parameter openedAtMilliseconds: the time that the caller passed when it opened the store. `migrationsRun`
    ///   contains the migrations that were recorded with this time.
    func schema(openedAtMilliseconds: Int64) async throws(StoreFailure) -> AppliedSchema

    /// Returns the free disk space that this process may use for the database, in bytes. Returns nil if the space is
    /// unknown, for example because the database is on another machine.
    func diskFreeBytes() -> Int64?
}

package struct AppliedSchema: Hashable, Sendable {
    /// The number of the newest migration.
    package var number: Int
    /// The file names of the migrations that ran when the store was opened, in order.
    package var migrationsRun: [String]

    package init(number: Int, migrationsRun: [String]) {
        (self.number, self.migrationsRun) = (number, migrationsRun)
    }
}

/// A migration of this binary, and when it was applied to the database.
package struct MigrationStatus: Hashable, Sendable {
    package var number: Int
    package var name: String
    /// Milliseconds since 1970-01-01T00:00:00Z; nil while the migration is not applied.
    package var appliedAtMilliseconds: Int64?

    package init(number: Int, name: String, appliedAtMilliseconds: Int64?) {
        (self.number, self.name, self.appliedAtMilliseconds) = (number, name, appliedAtMilliseconds)
    }
}

/// The port that reads the last backup made by `dwell backup`. On PostgreSQL, `lastBackup` returns nil, because Dwell
/// does not see PostgreSQL's own backups.
package protocol BackupHistory: Sendable {
    /// Returns the last backup; nil if `dwell backup` has never succeeded on this database.
    func lastBackup() async throws(StoreFailure) -> LastBackup?
}

package struct LastBackup: Hashable, Sendable {
    package var completedAt: Moment
    /// The size of the copy in bytes.
    package var bytes: Int64

    package init(completedAt: Moment, bytes: Int64) {
        (self.completedAt, self.bytes) = (completedAt, bytes)
    }
}
