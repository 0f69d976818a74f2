// The transaction in which the statements of this module run. SQLiteStore runs it in its writer; PostgresStore runs it
// on a separate connection.

package import JourneyModel

/// An open transaction, or the snapshot of a read. It is valid only until the closure that received it returns.
///
/// All statements must be SQL that both SQLite 3.40 and PostgreSQL 15 accept (docs/decisions/sql-as-text.md). A
/// statement may write its parameters as `?` or as `?1`, `?2`, but must not mix the two.
package protocol SQLTransaction {
    /// Runs a statement that returns no rows. Returns the number of rows that it inserted, updated or deleted.
    @discardableResult
    func execute(sql: String, arguments: SQLArguments) throws -> Int

    func fetchAll(sql: String, arguments: SQLArguments) throws -> [SQLRow]

    /// Adds a driver without events and returns its row number. Each store does this itself, because the two stores
    /// keep different columns of drivers.
    func addDriver(_ driver: DriverID, at now: Moment) throws -> Int64

    /// Returns the session with this id; nil if there is none. Each store does this itself, because the two stores keep
    /// different tables of sessions.
    func session(_ sessionID: String) throws -> ReferencedSession?

    /// Returns the SQL expression for the session_id of the session to which the value of `column` refers.
    func sessionIDSQL(_ column: String) -> String

    /// The SQL expression for the session of the journey in a row of `driver`. Its value is a reference as in a column
    /// `session`; NULL if the journey has no session.
    var currentSessionSQL: String { get }

    /// Returns the SQL condition that a column, which is 0 or 1, has this value. PostgreSQL compares the column. SQLite
    /// uses the column itself or its negation, because it finds some partial indexes only by this text.
    func condition(_ column: String, is value: Bool) -> String
}

extension SQLTransaction {
    @discardableResult
    package func execute(sql: String) throws -> Int { try execute(sql: sql, arguments: []) }

    /// The default is for PostgreSQL, where a reference to a session is its session_id.
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

    /// Returns the values of the first column of all rows. None of these values may be NULL.
    package static func fetchAll(
        _ db: any SQLTransaction, sql: String, arguments: SQLArguments = []
    ) throws -> [Self] {
        try db.fetchAll(sql: sql, arguments: arguments).map { try $0[0] }
    }
}
