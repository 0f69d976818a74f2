// The number of pages in the WAL, as SQLite reports it after each commit of one connection
// (https://www.sqlite.org/c3ref/wal_hook.html). The hook for this replaces SQLite's automatic checkpoints, which use
// the same hook.

import GRDBSQLite

/// Not Sendable: used only on the writer's queue, as the connection is.
final class WALSize {
    private let connection: OpaquePointer
    private(set) var pages = 0

    /// The connection must exist as long as this object: open, or closed by sqlite3_close_v2 with statements that are
    /// not finalized.
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
