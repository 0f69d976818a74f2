// Fills the table `event_key` in the new file of a rebuild, after all events are copied. Rows are sorted by the primary
// key `place` (EventKeyHash.swift), so that each page is written once. Sorting takes 16 bytes of memory per event.

import GRDB

enum RebuiltKeys {
    private struct Entry {
        var place: Int64
        var event: Int64
    }

    static func write(
        on connection: OpaquePointer, _ db: Database, rowCount: Int, sliceRows: Int,
        _ report: (RebuildProgress) -> Void
    ) throws {
        var written = try Int.fetchOne(db, sql: "SELECT count(*) FROM new.event_key") ?? 0
        guard written < rowCount else { return }
        let entries = try entries(on: connection, db, rowCount: rowCount)
        let insert = try PreparedStatement("INSERT INTO new.event_key (place, event) VALUES (?1, ?2)", on: connection)
        var pace = RebuildPace()
        while written < entries.count {
            let slice = entries[written..<min(written + sliceRows, entries.count)]
            try RebuiltTables.inTransaction(db) {
                for entry in slice {
                    try insert.run { (bindings) throws(SQLiteError) in
                        try bindings.set(1, entry.place)
                        try bindings.set(2, entry.event)
                    }
                }
            }
            written += slice.count
            pace.show(written, of: rowCount, report)
        }
    }

    /// Computes the entries of the hash table `event_key`, in the order of their places. If an event's place is taken,
    /// the event gets the next free place, as in EventKeyTable.
    private static func entries(on connection: OpaquePointer, _ db: Database, rowCount: Int) throws -> [Entry] {
        let hash = try EventKeyHash(on: connection)
        var entries: [Entry] = []
        entries.reserveCapacity(rowCount)
        let select = try PreparedStatement("SELECT id, driver, key FROM new.event", on: connection)
        try select.forEach { (_) throws(SQLiteError) in
        } visit: { (row) throws(SQLiteError) in
            let (event, driver) = (row.integer(0), row.integer(1))
            entries.append(Entry(place: row.withBytes(2) { hash.place(of: $0, of: driver) }, event: event))
            return true
        }
        entries.sort { ($0.place, $0.event) < ($1.place, $1.event) }
        for index in entries.indices.dropFirst() where entries[index].place <= entries[index - 1].place {
            entries[index].place = entries[index - 1].place + 1
        }
        return entries
    }
}
