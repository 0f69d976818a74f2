// The transaction in which this module's statements run. It runs in SQLiteStore's writer, or on a separate connection
// of PostgresStore.

package import JourneyModel

/// An open transaction, or the snapshot of a read. It is valid only while the closure that received it runs.
///
/// Both SQLite 3.40 and PostgreSQL 15 must accept every statement (docs/decisions/sql-as-text.md). A statement may
/// write its parameters as `?` or as `?1`, `?2`, but must not mix the two.
package protocol SQLTransaction {
    /// Runs a statement that returns no rows. Returns the number of inserted, updated or deleted rows.
    @discardableResult
    func execute(sql: String, arguments: SQLArguments) throws -> Int

    func fetchAll(sql: String, arguments: SQLArguments) throws -> [SQLRow]

    /// Adds a driver without events, and returns its row number. The columns of drivers differ between the two stores.
    func addDriver(_ driver: DriverID, at now: Moment) throws -> Int64

    /// Returns the session with this id; nil if there is none. The tables of sessions differ between the two stores.
    func session(_ sessionID: String) throws -> ReferencedSession?

    /// Returns the SQL expression that turns the value of `column`, a reference to a session, into a session_id.
    func sessionIDSQL(_ column: String) -> String

    /// The SQL expression, in a query of `driver`, for the session of the driver's journey. Its value refers to the
    /// session as a column `session` does, and is NULL if the journey has no session.
    var currentSessionSQL: String { get }

    /// Returns the SQL condition that a Boolean column has this value. For SQLite, the condition is the column itself
    /// or its negation, because SQLite finds some partial indexes only by this text.
    func condition(_ column: String, is value: Bool) -> String
}

extension SQLTransaction {
    @discardableResult
    package func execute(sql: String) throws -> Int { try execute(sql: sql, arguments: []) }

    /// The default is for PostgreSQL, where a column `session` contains the session_id.
    package func sessionIDSQL(_ column: String) -> String { column }

    package var currentSessionSQL: String { "driver.session_id" }

    package func condition(_ column: String, is value: Bool) -> String { "\(column) = \(value ? 1 : 0)" }
}

extension SQLRow {
    package static func fetchAll(
        _ db: any SQLTransaction, sql: String, arguments: SQLArguments = []
    ) throws -> [SQLRow] {
        try db.fetchAll(sql: sql, arguments: arguments)
    }

    package static func fetchOne(
        _ db: any SQLTransaction, sql: String, arguments: SQLArguments = []
    ) throws -> SQLRow? {
        try db.fetchAll(sql: sql, arguments: arguments).first
    }
}

extension SQLConvertible {
    /// Returns the first column of the first row; nil if there is no row, or if the value is NULL.
    package static func fetchOne(
        _ db: any SQLTransaction, sql: String, arguments: SQLArguments = []
    ) throws -> Self? {
        try db.fetchAll(sql: sql, arguments: arguments).first?[0]
    }

    /// Returns the first column of all rows. None of its values may be NULL.
    package static func fetchAll(
        _ db: any SQLTransaction, sql: String, arguments: SQLArguments = []
    ) throws -> [Self] {
        try db.fetchAll(sql: sql, arguments: arguments).map { try $0[0] }
    }
}
