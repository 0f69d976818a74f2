// Runs the statements of SharedTables in a transaction or a snapshot of SQLite.

import Engine
import GRDB
import GRDBSQLite
package import JourneyModel
package import SharedTables

import struct Foundation.Data

/// A connection of SQLite for the statements of SharedTables. Prepares each SQL text once.
package struct SQLiteTransaction: SQLTransaction {
    fileprivate let db: Database

    init(_ db: Database) {
        self.db = db
    }

    @discardableResult
    package func execute(sql: String, arguments: SQLArguments) throws -> Int {
        try db.cachedStatement(sql: sql).execute(arguments: StatementArguments(arguments))
        return db.changesCount
    }

    package func fetchAll(sql: String, arguments: SQLArguments) throws -> [SQLRow] {
        let rows = try Row.fetchCursor(db.cachedStatement(sql: sql), arguments: StatementArguments(arguments))
        var read: [SQLRow] = []
        while let row = try rows.next() { read.append(try SQLRow(row)) }
        return read
    }

    package func addDriver(_ driver: DriverID, at now: Moment) throws -> Int64 {
        try db.cachedStatement(sql: "INSERT INTO driver (driver_id, created_at_ms, rules) VALUES (?, ?, ?)")
            .execute(arguments: [driver.rawValue, now.millisecondsSinceEpoch, Fold.rulesVersion])
        return db.lastInsertedRowID
    }

    package func session(_ sessionID: String) throws -> ReferencedSession? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT session.id, driver.id, driver_id, state,
                        (SELECT current.session_id FROM session AS current WHERE current.id = driver.session),
                        NULL, NULL, grace_deadline_ms, hard_deadline_ms, ended_by, NULL, head_corrected_at_ms
                    FROM session JOIN driver ON driver.id = session.driver WHERE session_id = ?
                    """),
            arguments: [sessionID])
        guard let row, let reference = SessionReference(.integer(row[0])) else { return nil }
        return ReferencedSession(
            reference: reference, driver: row[1], driverID: DriverID(row[2]),
            journey: try StoredEvents.journey(row, 3), lastEventAt: StoredEvents.moment(row[11]))
    }

    package func sessionIDSQL(_ column: String) -> String {
        "(SELECT session_id FROM session WHERE session.id = \(column))"
    }

    package var currentSessionSQL: String { "driver.session" }

    package func condition(_ column: String, is value: Bool) -> String { value ? column : "NOT \(column)" }
}

extension Database {
    /// The connection for SQLite's C functions.
    ///
    /// - Throws: SQLITE_MISUSE if the database is closed.
    var openConnection: OpaquePointer {
        get throws(SQLiteError) {
            guard let connection = sqliteConnection else {
                throw SQLiteError(extendedCode: SQLITE_MISUSE, message: "the database is closed")
            }
            return connection
        }
    }

    /// Returns the transaction's connection, for statements on tables that only this store has.
    static func of(_ transaction: any SQLTransaction) throws -> Database {
        guard let transaction = transaction as? SQLiteTransaction else {
            throw SQLiteError(extendedCode: SQLITE_MISUSE, message: "a transaction of another store")
        }
        return transaction.db
    }
}

extension StatementArguments {
    /// The elements have the type `(any DatabaseValueConvertible)?` for speed. With one concrete type, GRDB would use
    /// an initializer that builds a key path in each call. That took half the time of storing a notification.
    fileprivate init(_ arguments: SQLArguments) {
        self.init(
            arguments.values.map { value -> (any DatabaseValueConvertible)? in
                switch value {
                case .null: nil
                case .integer(let integer): integer
                case .text(let text): text
                case .blob(let bytes): Data(bytes)
                }
            })
    }
}

extension SQLRow {
    /// - Throws: `UnreadableColumn` for a floating-point number. No table has one.
    init(_ row: Row) throws {
        self.init(
            // Reading the values without their names avoids a String for each column.
            try row.databaseValues.enumerated().map { index, value in
                switch value.storage {
                case .null: .null
                case .int64(let integer): .integer(integer)
                case .string(let text): .text(text)
                case .blob(let data): .blob([UInt8](data))
                case .double: throw UnreadableColumn(name: Array(row.columnNames)[index])
                }
            })
    }
}

extension [UInt8] {
    /// The bytes as `Data`, which GRDB binds as a BLOB.
    var data: Data { Data(self) }
}
