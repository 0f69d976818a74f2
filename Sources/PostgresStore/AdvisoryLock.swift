// The advisory locks of a database. The numbers must not change between releases, because servers of two releases may
// use one database at the same time.

/// The number of an advisory lock of PostgreSQL. Each lock has one purpose.
enum AdvisoryLock: Int64 {
    /// Held by the instance that migrates the database.
    case migration = 0x4477_656C_6C00
    /// On Citus, each batch holds this lock in shared mode. `EventPosition.raiseForServer` takes the lock in exclusive
    /// mode, and so waits for all batches in progress.
    case eventPosition = 0x4477_656C_6C01
    /// Held by a transfer from SQLite.
    case transfer = 0x4477_656C_6C02
}
