// Facts about the database as a whole, and checks of it. The server needs them at its start, for /readyz, for the
// metrics and for /ops.

package import JourneyModel

package protocol DatabaseStatus: Sendable {
    /// Makes a test write, and returns when it is on disk.
    func checkWritable() async throws(StoreFailure)

    /// Returns the applied schema.
    ///
    /// - Parameter openedAtMilliseconds: the time that the caller gave when it opened the store. The store recorded
    ///   this time with each migration that it applied then, so `migrationsRun` can name these migrations.
    func schema(openedAtMilliseconds: Int64) async throws(StoreFailure) -> AppliedSchema

    /// Returns the free space on the disk of the database, in bytes, as far as this process may use it. Returns nil if
    /// the free space is unknown, for example because the database is on another machine.
    func diskFreeBytes() -> Int64?
}

package struct AppliedSchema: Hashable, Sendable {
    /// The number of the newest migration.
    package var number: Int
    /// The migrations that ran when the store was opened, by file name, in order.
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

/// The port that reads the last backup made by `dwell backup`. On PostgreSQL the result is always nil, because Dwell
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
