// The number of pages in the WAL, as SQLite reports after each commit of one connection
// (https://www.sqlite.org/c3ref/wal_hook.html). This disables SQLite's automatic checkpoints, which use the same
// hook.

import GRDBSQLite

/// Not Sendable: it lives with the connection, on the writer's queue.
final class WALSize {
    private let connection: OpaquePointer
    private(set) var pages = 0

    /// The connection must outlive this: it is open, or has statements that were not finalized (sqlite3_close_v2).
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
