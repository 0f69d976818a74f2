// How a store refers to a session in its other tables.

/// On SQLite the row number of the session, on PostgreSQL its session_id.
package enum SessionReference: Hashable, Sendable {
    case row(Int64)
    case id(String)
}
