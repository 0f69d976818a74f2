// How a store refers to a session in its other tables.

/// SQLite's row number of the session, or on PostgreSQL, which has none, the session_id. Only the store knows which.
package enum SessionReference: Hashable, Sendable {
    case row(Int64)
    case id(String)
}
