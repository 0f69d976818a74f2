// The number of pages in the WAL. SQLite's WAL hook reports this number after each commit of one connection
// (https://www.sqlite.org/c3ref/wal_hook.html). Setting the hook turns off SQLite's automatic checkpoints, which use
// the same hook.

import GRDBSQLite

/// Not Sendable: used only on the writer's queue, as the connection is.
final class WALSize {
    private let connection: OpaquePointer
    private(set) var pages = 0

    /// The connection must exist as long as this object. A connection that was closed by sqlite3_close_v2 still exists
    /// until its last statement is finalized.
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
