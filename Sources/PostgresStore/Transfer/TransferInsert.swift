// Statements that insert rows read from SQLite. The types of the columns are those of the PostgreSQL tables.

import Postgres
import SharedTables

/// The columns of a table.
struct TransferTable: Sendable {
    /// The type by the column's name: int2, int8, text or bytea.
    var types: [String: String] = [:]
    /// In the order of the table.
    var names: [String] = []
    /// The identity columns, whose values PostgreSQL generates.
    var identities: [String] = []

    /// - Parameter mapsDriver: whether to replace the values of the column `driver`. They are row numbers of SQLite,
    ///   and become the `driver.id` of PostgreSQL.
    func insert(_ rows: TransferRows, mapsDriver: Bool, onConflict: String = "") throws -> PostgresQuery {
        let types = try rows.columns.map { column in
            guard let type = self.types[column] else { throw UnreadableColumn(name: "\(rows.table).\(column)") }
            return type
        }
        let arrays = types.enumerated().map { "$\($0 + 1)::\($1)[]" }.joined(separator: ", ")
        let names = rows.columns.map { "\"\($0)\"" }
        let isMapped = mapsDriver && rows.columns.contains("driver")
        let values = isMapped ? names.map { $0 == "\"driver\"" ? "transferred_driver.id" : "given.\($0)" } : names
        let statement = PostgresStatement(
            "transfer_\(rows.table)",
            """
            INSERT INTO \(rows.table) (\(names.joined(separator: ", "))) SELECT \(values.joined(separator: ", "))
            FROM unnest(\(arrays)) given(\(names.joined(separator: ", ")))
            \(isMapped ? "LEFT JOIN transferred_driver ON transferred_driver.source = given.driver" : "") \(onConflict)
            """)
        return PostgresQuery(
            statement,
            try types.enumerated().map { index, type in
                try Self.array(rows, index, type)
            })
    }

    private static func array(_ rows: TransferRows, _ index: Int, _ type: String) throws -> PostgresValue {
        func values<Value: SQLConvertible>(_: Value.Type) throws -> [Value?] {
            try rows.rows.map { row in
                if row[index] == .null { return nil }
                guard let value = Value(row[index]) else {
                    throw UnreadableColumn(name: "\(rows.table).\(rows.columns[index])")
                }
                return value
            }
        }
        return switch type {
        case "int2": .int2s(try values(Int64.self).map { try $0.map { try int2($0, rows, index) } })
        case "int8": .int8s(try values(Int64.self))
        case "text": .texts(try values(String.self))
        case "bytea": .byteas(try values([UInt8].self))
        default: throw UnreadableColumn(name: "\(rows.table).\(rows.columns[index])")
        }
    }

    private static func int2(_ value: Int64, _ rows: TransferRows, _ index: Int) throws -> Int16 {
        guard let short = Int16(exactly: value) else {
            throw UnreadableColumn(name: "\(rows.table).\(rows.columns[index])")
        }
        return short
    }
}

extension TransferRows {
    /// Adds a column whose value follows from that of another column.
    mutating func add(_ name: String, from other: String, _ value: (SQLValue) throws -> SQLValue) throws {
        let index = try index(of: other)
        columns.append(name)
        for row in rows.indices { rows[row].append(try value(rows[row][index])) }
    }

    mutating func replace(_ name: String, _ value: (SQLValue) throws -> SQLValue) throws {
        let index = try index(of: name)
        for row in rows.indices { rows[row][index] = try value(rows[row][index]) }
    }

    func index(of column: String) throws -> Int {
        guard let index = columns.firstIndex(of: column) else { throw UnreadableColumn(name: "\(table).\(column)") }
        return index
    }
}
