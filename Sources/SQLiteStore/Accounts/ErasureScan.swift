// Searches for remains of a deleted driver, for `dwell verify-erased`. Searches all columns of all tables. Also
// searches the bytes of the database file and the WAL, which may contain rows that no query finds.
//
// The search does not use the code of deletions, so that it also finds what a defect in that code leaves behind. It
// writes nothing.

import Foundation
import GRDB
package import SharedTables

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

package struct ErasureScan: ErasureSearch {
    /// Minimum length of an identifier in bytes. A shorter identifier would match by chance.
    package static let identifierBytesMin = 4

    /// Number of bytes read at a time.
    private static let chunkBytes = 1 << 20

    private let path: String

    /// Creates a scan of the database at `path`, which may be in use.
    package init(path: String) {
        self.path = path
    }

    /// Returns every column that contains an identifier. Also returns each identifier's first position in the database
    /// file, in the WAL and in the journal. Throws if a file or the database cannot be read.
    package func find(_ identifiers: [String]) throws -> [ErasureFinding] {
        let columns = try read { db in
            try Self.columns(db).flatMap { table, column in
                try identifiers.enumerated().compactMap { index, identifier in
                    try Self.isIn(table, column, identifier, db)
                        ? ErasureFinding(identifier: index, location: "\(table).\(column)") : nil
                }
            }
        }
        let files = try ["", "-wal", "-journal"].map { DatabaseFiles.resolved(path) + $0 }
            .filter { FileManager.default.fileExists(atPath: $0) }
            .flatMap { file in try Self.search(file, for: identifiers) }
        return columns + files
    }

    /// Returns the tables and columns that still have data of a deleted driver. `receipt` is the receipt of the
    /// deletion. Returns nil if no deletion has this receipt.
    package func leftovers(ofReceipt receipt: String) throws -> [String]? {
        try read { db in
            let driver = try Row.fetchOne(
                db, sql: "SELECT driver FROM audit WHERE action = 'erased' AND reason = ?", arguments: [receipt])
            guard let driver else { return nil }
            // If the driver has no row, nothing was stored about the driver.
            guard let row = driver[0] as Int64? else { return [] }
            // Backups of older versions do not record which drivers use a text. In such a backup, a driver's remaining
            // texts cannot be recognised.
            let texts = try db.tableExists("place_use") ? Self.remainingTextQueries : []
            let erasure = try db.tableExists("erasure") ? Self.incompleteErasureQueries : []
            let purchases = try Self.remainingPurchaseQueries.filter { try db.tableExists($0.name) }
            let pushes = try db.tableExists("push_outbox") ? Self.remainingPushQueries : []
            let events = try DriverEvents.all(of: row, db)
            let list = DriverEvents.list(events)
            let keys = try Self.hasOldKey(Set(events), db) ? ["event_key.place"] : []
            return try keys
                + (erasure + Self.remainingRowQueries + texts + purchases + pushes).compactMap { name, sql in
                    let arguments: StatementArguments = sql.contains("?2") ? [row, list] : [row]
                    let isLeft = try Bool.fetchOne(db, sql: "SELECT EXISTS (\(sql))", arguments: arguments)
                    return isLeft == true ? name : nil
                }
        }
    }

    /// Returns whether the hash table `event_key` lists one of the events at a wrong place. Such an entry belongs to
    /// the key that the event had before the deletion.
    private static func hasOldKey(_ events: Set<Int64>, _ db: Database) throws -> Bool {
        guard try db.tableExists("event_key") else { return false }
        let keys = try EventKeyTable(db)
        let places = Set(try events.compactMap { try keys.place(ofListed: $0) })
        let listed = try Row.fetchCursor(db, sql: "SELECT * FROM event_key")
        while let row = try listed.next() {
            if events.contains(row[1]), !places.contains(row[0]) { return true }
        }
        return false
    }

    // In the queries below, ?1 is the driver's row number, and ?2 is the list of the driver's event ids
    // (`DriverEvents.list`).

    private static let incompleteErasureQueries = [
        ("the deletion is not complete, its row in erasure", "SELECT 1 FROM erasure WHERE driver = ?1")
    ]

    private static let remainingRowQueries: [(name: String, sql: String)] =
        [
            "account", "apple_identity", "apple_refresh_token", "phone_identity", "sign_in_session", "device",
            "session_code",
        ].map { table in
            (table, "SELECT 1 FROM \(table) WHERE driver = ?1")
        } + [
            ("driver.driver_id", "SELECT 1 FROM driver WHERE id = ?1 AND driver_id NOT LIKE 'erased-%'"),
            ("session.session_id", "SELECT 1 FROM session WHERE driver = ?1 AND session_id NOT LIKE 'erased-%'"),
            // An expiry is the event that the server stores after a session's deadline. If it is stored after the
            // deletion, its key contains the session's new id. The second pattern matches such a key.
            (
                "event.idempotency_key",
                """
                SELECT 1 FROM \(DriverEvents.listedSQL("?2"))
                WHERE idempotency_key NOT LIKE 'erased-%' AND idempotency_key NOT LIKE '§%/erased-%/%'
                """
            ),
            ("event.event_id", "SELECT 1 FROM \(DriverEvents.listedSQL("?2")) WHERE event_id IS NOT NULL"),
            ("event.metadata", "SELECT 1 FROM \(DriverEvents.listedSQL("?2")) WHERE metadata IS NOT NULL"),
            ("event.details", "SELECT 1 FROM \(DriverEvents.listedSQL("?2")) WHERE details IS NOT NULL"),
            ("audit.address", "SELECT 1 FROM audit WHERE driver = ?1 AND address IS NOT NULL"),
            ("audit.request_id", "SELECT 1 FROM audit WHERE driver = ?1 AND request_id IS NOT NULL"),
            ("audit.sid", "SELECT 1 FROM audit WHERE driver = ?1 AND sid IS NOT NULL"),
            // A client's text of a time could identify the driver. A deletion replaces the text by one of the two forms
            // below. A text of another form was not replaced.
            (
                "event.occurred_at",
                """
                SELECT 1 FROM \(DriverEvents.listedSQL("?2")) WHERE occurred_at NOT IN (
                    strftime('%Y-%m-%dT%H:%M:%fZ', occurred_at_ms / 1000.0, 'unixepoch'),
                    strftime('%Y-%m-%dT%H:%M:%SZ', occurred_at_ms / 1000.0, 'unixepoch'))
                """
            ),
            // A deletion replaces each sequence by a small rank. A sequence number of at least 10,000,000 was not
            // replaced, and may be a phone number.
            ("event.sequence", "SELECT 1 FROM \(DriverEvents.listedSQL("?2")) WHERE sequence >= 10000000"),
        ]

    /// Finds texts that only this driver uses, and rows that record the driver's use of texts. Texts that other drivers
    /// also use may remain.
    private static let remainingTextQueries: [(name: String, sql: String)] = [
        (
            "place.place_id",
            """
            SELECT 1 FROM place WHERE place_id NOT LIKE 'erased-%'
                AND id IN (
                    SELECT charger FROM \(DriverEvents.listedSQL("?2"))
                    UNION SELECT merchant FROM \(DriverEvents.listedSQL("?2"))
                    UNION SELECT charger FROM session WHERE driver = ?1
                    UNION SELECT merchant FROM session WHERE driver = ?1)
                AND NOT EXISTS (SELECT 1 FROM place_use WHERE place = place.id AND driver <> ?1)
            """
        ),
        (
            "event_kind.name, source or schema_version",
            """
            SELECT 1 FROM event_kind WHERE source NOT LIKE 'erased-%' AND NOT \(UsualTexts.sql)
                AND id IN (SELECT kind FROM \(DriverEvents.listedSQL("?2")))
                AND NOT EXISTS (SELECT 1 FROM event_kind_use WHERE kind = event_kind.id AND driver <> ?1)
            """
        ),
        ("place_use", "SELECT 1 FROM place_use WHERE driver = ?1"),
        ("event_kind_use", "SELECT 1 FROM event_kind_use WHERE driver = ?1"),
    ]

    private static let remainingPurchaseQueries: [(name: String, sql: String)] = [
        "app_account_token", "consumption_consent", "purchase",
    ].map { table in
        (table, "SELECT 1 FROM \(table) WHERE driver = ?1")
    }

    private static let remainingPushQueries = [("push_outbox", "SELECT 1 FROM push_outbox WHERE driver = ?1")]

    // MARK: Tables

    private func read<Value>(_ value: (Database) throws -> Value) throws -> Value {
        let queue = try RecordsFile.connect(path)
        defer { try? queue.close() }
        return try queue.read(value)
    }

    /// Returns the columns of all tables. The view `event` replaces the table `event_row`, because the view has the
    /// texts as clients sent them.
    private static func columns(_ db: Database) throws -> [(table: String, column: String)] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT entry.name, info.name FROM sqlite_schema AS entry, pragma_table_xinfo(entry.name) AS info
                WHERE entry.type = 'table' AND entry.name <> 'event_row' OR entry.name = 'event'
                """
        ).map { ($0[0], $0[1]) }
    }

    private static func isIn(_ table: String, _ column: String, _ text: String, _ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM "\(table)" WHERE instr(CAST("\(column)" AS BLOB), CAST(? AS BLOB)) > 0)
                """,
            arguments: [text]) ?? false
    }

    // MARK: Files

    /// Returns the first position of each identifier in each of `files`, for example in a proxy's log.
    package static func find(_ identifiers: [String], in files: [String]) throws -> [ErasureFinding] {
        try files.flatMap { file in try search(file, for: identifiers) }
    }

    /// Reads the file in overlapping chunks, to find matches that lie in two chunks. Searches for a UUID both as text
    /// and in the binary form of `event.key`.
    private static func search(_ file: String, for identifiers: [String]) throws -> [ErasureFinding] {
        // Not opened with FileHandle, because its error messages are not meant for operators.
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw MaintenanceRefusal(errnoAt: file) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        defer { try? handle.close() }
        let patterns = identifiers.enumerated().flatMap { index, identifier in
            let stored = StoredKey(identifier).withBytes { Data($0.prefix(16)) }
            return [(identifier: index, bytes: Data(identifier.utf8))]
                + (StoredKey(identifier).isUUID ? [(identifier: index, bytes: stored)] : [])
        }
        let overlap = max(0, (patterns.map(\.bytes.count).max() ?? 0) - 1)
        var found: [Int: Int] = [:]
        var window = Data()
        var offset = 0
        while let chunk = try handle.read(upToCount: chunkBytes), !chunk.isEmpty {
            window.append(chunk)
            for (identifier, bytes) in patterns where found[identifier] == nil {
                guard let range = window.range(of: bytes) else { continue }
                found[identifier] = offset + range.lowerBound - window.startIndex
            }
            let kept = min(overlap, window.count)
            offset += window.count - kept
            window = Data(window.suffix(kept))
        }
        let name = URL(fileURLWithPath: file).lastPathComponent
        return found.sorted { $0.key < $1.key }.map { index, byte in
            ErasureFinding(identifier: index, location: "\(name), byte \(byte)")
        }
    }
}
