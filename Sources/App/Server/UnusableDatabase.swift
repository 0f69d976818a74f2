import SQLiteStore

/// An error for a database that cannot be used. Its text names the database, because the error texts of SQLite and
/// PostgreSQL do not.
struct UnusableDatabase: Error, CustomStringConvertible {
    var database: Configuration.Database
    var reason: String

    init(_ database: Configuration.Database, reason: String) {
        (self.database, self.reason) = (database, reason)
    }

    /// If `error` already is an `UnusableDatabase`, keeps it unchanged, because it names its database.
    init(_ database: Configuration.Database, _ error: any Error) {
        let path: String? = if case .sqlite(let path) = database { path } else { nil }
        self = error as? Self ?? Self(database, reason: DatabaseOpening.reason(error, at: path))
    }

    var description: String { "the database \(database): \(reason)" }
}
