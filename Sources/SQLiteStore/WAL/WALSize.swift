// The number of pages in the WAL. SQLite's WAL hook reports it after each commit of the connection
// (https://www.sqlite.org/c3ref/wal_hook.html). SQLite's automatic checkpoints use the same hook, so this hook turns
// them off.

import GRDBSQLite

/// Not Sendable: used only on the writer's queue, like the connection.
final class WALSize {
    private let connection: OpaquePointer
    private(set) var pages = 0

    /// The connection must exist as long as this object. After sqlite3_close_v2, a connection exists until its last
    /// statement is finalized.
    init(of connection: OpaquePointer) {
        self.connection = connection
        let this = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_wal_hook(
            connection,
            { this, _, _, pages in
                if let this { Unmanaged<WALSize>.fromOpaque(this).takeUnretainedValue().pages = Int(pages) }
                return SQLITE_OK
            }, this)
    }

    deinit { sqlite3_wal_hook(connection, nil, nil) }
}
