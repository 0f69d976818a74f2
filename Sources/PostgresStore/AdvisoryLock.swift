// The advisory locks of a database. Their numbers are the same in all releases, because servers of two releases may use
// one database at a time.

/// The number of an advisory lock of PostgreSQL. Each lock is used for one purpose, as its number occurs once.
enum AdvisoryLock: Int64 {
    /// Held by the instance that migrates the database.
    case migration = 0x4477_656C_6C00
    /// Held, shared, by each batch on Citus, and alone by the instance that raises the offset of positions.
    case eventPosition = 0x4477_656C_6C01
    /// Held by a transfer from SQLite.
    case transfer = 0x4477_656C_6C02
}
