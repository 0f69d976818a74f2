// How a store refers to a session in its other tables.

/// The session's row number on SQLite, and its session_id on PostgreSQL.
package enum SessionReference: Hashable, Sendable {
    case row(Int64)
    case id(String)
}
