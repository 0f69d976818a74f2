// The database file from which a transfer to PostgreSQL reads. Nothing in the file is changed.

internal import Crypto
import Engine
import GRDB
import JourneyModel
package import SharedTables

import struct Foundation.Data

package final class SQLiteTransferSource: TransferSource {
    /// Maximum number of events, and of drivers, in one part of a transfer.
    private static let eventsMax = 4_000
    private static let driversMax = 1_000
    /// Maximum number of rows that one read takes from a shared table.
    private static let rowsMax = 5_000

    private let queue: DatabaseQueue

    private init(_ queue: DatabaseQueue) throws {
        self.queue = queue
        do { try queue.read(MigrationRun().requireCurrent) } catch {
            try? queue.close()
            throw error
        }
    }

    /// Opens the database for reading. Servers may use it.
    ///
    /// - Throws: `RecordsUnreadable`, `MigrationRefusal`, or SQLite's error.
    package static func open(_ path: String) throws -> SQLiteTransferSource {
        try SQLiteTransferSource(try RecordsFile.connect(path))
    }

    /// Opens the database for this process alone. Returns nil if another process has the database open.
    ///
    /// In exclusive locking mode, SQLite takes the lock at its first access and keeps it. BEGIN EXCLUSIVE is needed
    /// too, for a file that is not in WAL mode.
    package static func lock(_ path: String) throws -> SQLiteTransferSource? {
        guard DatabaseCopy.exists(path) else { throw RecordsUnreadable.missing }
        var configuration = Configuration()
        configuration.busyMode = .immediateError
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
        do {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            do {
                try queue.writeWithoutTransaction { db in try db.execute(sql: "BEGIN EXCLUSIVE; ROLLBACK") }
            } catch {
                try? queue.close()
                throw error
            }
            return try SQLiteTransferSource(queue)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            return nil
        }
    }

    package func close() {
        try? queue.close()
    }

    private func read<Value>(_ body: (Database, OpaquePointer) throws -> Value) throws -> Value {
        try queue.read { db in
            try body(db, db.openConnection)
        }
    }

    // MARK: The database

    /// Returns a hash of the secret in `event_key_hash`, which identifies the database. Each database has its own
    /// secret, and a copy of the database has the same secret.
    package func identity() throws -> [UInt8] {
        try read { db, _ in
            let secret = try Data.fetchOne(db, sql: "SELECT secret FROM event_key_hash")
            guard let secret else { throw SQLiteError.unreadable("event_key_hash.secret") }
            return Array(SHA256.hash(data: secret))
        }
    }

    /// If a late event caused an unfinished refold by the current rules, the refold is no obstacle, because the target,
    /// PostgreSQL, can complete it. Any other unfinished refold is an obstacle in the last pass of a transfer.
    ///
    /// PostgreSQL cannot complete such a refold, because the driver's rows may lack values that PostgreSQL cannot
    /// compute (Refolding.swift), or have settings that a correction replaces.
    package func obstacle(isFinal: Bool) throws -> String? {
        try read { db, _ in
            let old = try Int.fetchOne(
                db,
                sql: """
                    SELECT count(*) FROM driver LEFT JOIN refold ON refold.driver = driver.id
                    WHERE driver.rules NOT IN (0, ?1)
                        OR ?2 AND refold.driver IS NOT NULL AND (refold.rules <> ?1 OR refold.cause IS NULL)
                    """, arguments: [Fold.rulesVersion, isFinal])
            if let old, old > 0 {
                return
                    "the journeys of \(old) drivers are not folded by the rules of this version yet: run dwell refold"
            }
            let erasing = try Int.fetchOne(
                db, sql: "SELECT count(*) FROM erasure WHERE ? AND step <> ?",
                arguments: [isFinal, ErasureStep.wal.rawValue])
            guard let erasing, erasing > 0 else { return nil }
            return "\(erasing) deletions of drivers are not complete: start the server, and stop it some seconds later"
        }
    }

    package func drivers() throws -> [TransferredDriver] {
        try read { db, connection in
            let last = try Self.lastEvent(db)
            return try TransferMark.all(on: connection)
                .map { TransferredDriver(row: $0.key, mark: $0.value, lastEvent: last) }
                .sorted { $0.row < $1.row }
        }
    }

    /// Returns the highest number that an event ever had, even if retention has deleted the event.
    private static func lastEvent(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "SELECT seq FROM sqlite_sequence WHERE name = 'event_row'") ?? 0
    }

    package func lastEvents(after event: Int64) throws -> [Int64: Int64] {
        try read { _, connection in
            var last: [Int64: Int64] = [:]
            let select = try PreparedStatement(
                "SELECT id, driver FROM event_row WHERE id > ?1 ORDER BY id", on: connection)
            try select.forEach { (bindings) throws(SQLiteError) in
                try bindings.set(1, event)
            } visit: { (row) throws(SQLiteError) in
                last[row.integer(1)] = row.integer(0)
                return true
            }
            return last
        }
    }

    // MARK: Drivers

    package func part(at cursor: inout TransferCursor) throws -> TransferPart {
        let (part, next) = try read { db, connection in
            var (part, cursor) = (TransferPart(), cursor)
            let chain = try EventChain(on: connection)
            var events = Array(cursor.events.prefix(Self.eventsMax))
            cursor.events = cursor.events.dropFirst(events.count)
            var lastSeqs: [Int64: Int64] = [:]
            while cursor.events.isEmpty, events.count < Self.eventsMax, part.drivers.count < Self.driversMax,
                let driver = cursor.drivers.popFirst()
            {
                let own = try Self.events(of: driver.row, chain, db)
                let taken = own.prefix(Self.eventsMax - events.count)
                events += taken
                cursor.events = own.dropFirst(taken.count)
                lastSeqs[driver.row] = own.last ?? 0
                part.drivers.append(driver)
            }
            part.isContinued = !cursor.events.isEmpty
            if !part.drivers.isEmpty {
                let rows = DriverEvents.list(part.drivers.map(\.row))
                let drivers = try Self.drivers(rows, lastSeqs, on: connection, db)
                part.tables.append(drivers)
                part.recentChanges = try Self.recentChanges(rows, db)
                for columns in [TransferColumns.journeyBase, .session] {
                    part.tables.append(try Self.rows(columns, rows, on: connection))
                }
                let there = Set(drivers.rows.map { $0[0] })
                part.drivers.removeAll { !there.contains(.integer($0.row)) }
            }
            if !events.isEmpty {
                part.tables.append(try Self.rows(.event, DriverEvents.list(events), on: connection))
            }
            return (part, cursor)
        }
        cursor = next
        return part
    }

    /// Returns the numbers of the driver's events in ascending order. Walks the driver's chain backward, because a
    /// forward walk would read links more than once.
    private static func events(of driver: Int64, _ chain: EventChain, _ db: Database) throws -> [Int64] {
        var walk = try ChainWalk(chain, from: DriverEvents.end(of: driver, db).last, .backward)
        return try walk.next(.max).sorted()
    }

    private static func rows(
        _ columns: TransferColumns, _ list: String, on connection: OpaquePointer
    ) throws(SQLiteError) -> TransferRows {
        var rows: [[SQLValue]] = []
        try PreparedStatement(columns.sql, on: connection).forEach { (bindings) throws(SQLiteError) in
            try bindings.set(1, list)
        } visit: { (row) throws(SQLiteError) in
            rows.append((0..<row.count).map { row.value($0) })
            return true
        }
        return TransferRows(columns.table, columns: columns.names, rows: rows)
    }

    /// Returns the rows of the drivers in `list`, with the additional column `last_seq`. Clients have seen no event id
    /// of the driver above `last_seq`.
    ///
    /// For a driver without a floor, `last_seq` is the highest number of the driver's events. For a driver with a
    /// floor, retention may have deleted that event. `last_seq` is then the highest number of all events ever stored.
    private static func drivers(
        _ list: String, _ lastSeqs: [Int64: Int64], on connection: OpaquePointer, _ db: Database
    ) throws -> TransferRows {
        var drivers = try rows(.driver, list, on: connection)
        let last = try lastEvent(db)
        guard let floor = drivers.columns.firstIndex(of: "floor_at_ms") else { throw SQLiteError.unreadable("driver") }
        drivers.columns.append("last_seq")
        drivers.rows = drivers.rows.map { row in
            let own = Int64(row[0]).flatMap { lastSeqs[$0] } ?? 0
            return row + [.integer(row[floor] == .null ? own : last)]
        }
        return drivers
    }

    private static func recentChanges(_ list: String, _ db: Database) throws -> [Int64: [TransferredChange]] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT driver.id, recent_changes FROM json_each(?) AS listed
                CROSS JOIN driver ON driver.id = listed.value WHERE recent_changes IS NOT NULL
                """, arguments: [list])
        return try rows.reduce(into: [:]) { all, row in
            all[row[0]] = try RecentChanges(bytes: [UInt8](row[1] as Data)).changes.map { change in
                TransferredChange(event: change.event, journey: try StoredChanges.journey(after: change, db))
            }
        }
    }

    // MARK: Shared tables

    package func rows(
        of table: String, columns: [String], after key: inout [SQLValue]?
    ) throws -> TransferRows {
        let (rows, last) = try read { db, connection in
            let keys = try db.primaryKey(table).columns
            let marks = (1...keys.count).map { "?\($0)" }.joined(separator: ", ")
            let names = keys.joined(separator: ", ")
            let values = columns.map { TransferColumns.shared(table, $0) }
            let after = key == nil ? "TRUE" : "(\(names)) > (\(marks))"
            let select = try PreparedStatement(
                """
                SELECT \((values + keys).joined(separator: ", ")) FROM \(table)
                WHERE \(after) AND \(TransferColumns.isCopied(table)) ORDER BY \(names) LIMIT \(Self.rowsMax)
                """, on: connection)
            var (rows, last) = (TransferRows(table, columns: columns), key)
            try select.forEach { (bindings) throws(SQLiteError) in
                for (index, value) in (key ?? []).enumerated() { try bindings.set(Int32(index + 1), value) }
            } visit: { (row) throws(SQLiteError) in
                let all = (0..<row.count).map { row.value($0) }
                rows.rows.append(Array(all.prefix(columns.count)))
                last = Array(all.dropFirst(columns.count))
                return true
            }
            return (rows, last)
        }
        key = last
        return rows
    }
}

extension Bindings {
    fileprivate func set(_ index: Int32, _ value: SQLValue) throws(SQLiteError) {
        switch value {
        case .null: break
        case .integer(let integer): try set(index, integer)
        case .text(let text): try set(index, text)
        case .blob(let bytes): try set(index, blob: bytes)
        }
    }
}
