// How many pages the WAL has, as SQLite says after each commit of one connection (https://www.sqlite.org/c3ref/wal_hook.html).
// With that it no longer copies the WAL by itself: its own checkpoints are such a hook.

import GRDBSQLite

/// Not Sendable: it lives with the connection, on the writer's queue.
final class WALSize {
    private let connection: OpaquePointer
    private(set) var pages = 0

    /// The connection outlives this: it is open, or has statements that were not finalized (sqlite3_close_v2).
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
