// The rows of one statement, and typed access to their values.

/// The answer to one statement. The memory belongs to libpq. It is freed with the last copy of the result or of one of
/// its rows.
package struct PostgresResult: Sendable {
    let answer: LibpqResult
    package let rowCount: Int
    /// The number of rows that an INSERT, UPDATE, DELETE or MERGE changed, or that a SELECT returned; 0 for other
    /// statements.
    package let affectedCount: Int

    init(_ answer: LibpqResult) {
        self.answer = answer
        rowCount = answer.rowCount
        affectedCount = answer.affectedCount
    }

    /// Returns the row. The index must be below `rowCount`.
    package subscript(row: Int) -> PostgresRow {
        precondition(row >= 0 && row < rowCount, "no such row")
        return PostgresRow(answer: answer, row: row)
    }

    package var rows: some RandomAccessCollection<PostgresRow> {
        (0..<rowCount).lazy.map { self[$0] }
    }
}

/// One row. Columns are counted from 0. Each function throws `.unreadable` if the column does not exist, has another
/// type, or is NULL although the function's return type is not optional.
///
/// Integers are not converted: a column of type int4 is read with `int4`, and `count(*)` with `int8`.
package struct PostgresRow: Sendable {
    let answer: LibpqResult
    let row: Int

    package func bool(_ column: Int) throws(PostgresError) -> Bool { try required(column, optionalBool(column)) }
    package func int2(_ column: Int) throws(PostgresError) -> Int16 { try required(column, optionalInt2(column)) }
    package func int4(_ column: Int) throws(PostgresError) -> Int32 { try required(column, optionalInt4(column)) }
    package func int8(_ column: Int) throws(PostgresError) -> Int64 { try required(column, optionalInt8(column)) }
    package func text(_ column: Int) throws(PostgresError) -> String { try required(column, optionalText(column)) }
    package func bytea(_ column: Int) throws(PostgresError) -> [UInt8] { try required(column, optionalBytea(column)) }

    package func optionalBool(_ column: Int) throws(PostgresError) -> Bool? {
        try value(column, .bool) { $0.bool() }
    }

    package func optionalInt2(_ column: Int) throws(PostgresError) -> Int16? {
        try value(column, .int2) { $0.wholeNumber(Int16.self) }
    }

    package func optionalInt4(_ column: Int) throws(PostgresError) -> Int32? {
        try value(column, .int4) { $0.wholeNumber(Int32.self) }
    }

    package func optionalInt8(_ column: Int) throws(PostgresError) -> Int64? {
        try value(column, .int8) { $0.wholeNumber(Int64.self) }
    }

    package func optionalText(_ column: Int) throws(PostgresError) -> String? {
        try value(column, .text) { $0.text() }
    }

    package func optionalBytea(_ column: Int) throws(PostgresError) -> [UInt8]? {
        try value(column, .bytea) { $0.bytea() }
    }

    // MARK: - Any type

    package var columnCount: Int { answer.columnCount }

    /// Returns the value as a `PostgresValue`, whose case follows from the column's type. Throws `.unreadable` for an
    /// array, and for a type that has no case.
    package func value(_ column: Int) throws(PostgresError) -> PostgresValue {
        try check(column)
        if answer.isNull(row, column) { return .null }
        return switch answer.type(column) {
        case .bool: .bool(try bool(column))
        case .int2: .int2(try int2(column))
        case .int4: .int4(try int4(column))
        case .int8: .int8(try int8(column))
        case .bytea: .bytea(try bytea(column))
        default: .text(try text(column))
        }
    }

    // MARK: - Arrays

    package func bools(_ column: Int) throws(PostgresError) -> [Bool?] { try required(column, optionalBools(column)) }
    package func int2s(_ column: Int) throws(PostgresError) -> [Int16?] { try required(column, optionalInt2s(column)) }
    package func int8s(_ column: Int) throws(PostgresError) -> [Int64?] { try required(column, optionalInt8s(column)) }
    package func texts(_ column: Int) throws(PostgresError) -> [String?] { try required(column, optionalTexts(column)) }
    package func byteas(_ column: Int) throws(PostgresError) -> [[UInt8]?] {
        try required(column, optionalByteas(column))
    }

    package func optionalBools(_ column: Int) throws(PostgresError) -> [Bool?]? {
        try value(column, .bools) { $0.array(of: .bool) { $0.bool() } }
    }

    package func optionalInt2s(_ column: Int) throws(PostgresError) -> [Int16?]? {
        try value(column, .int2s) { $0.array(of: .int2) { $0.wholeNumber(Int16.self) } }
    }

    package func optionalInt8s(_ column: Int) throws(PostgresError) -> [Int64?]? {
        try value(column, .int8s) { $0.array(of: .int8) { $0.wholeNumber(Int64.self) } }
    }

    package func optionalTexts(_ column: Int) throws(PostgresError) -> [String?]? {
        try value(column, .texts) { $0.array(of: .text) { $0.text() } }
    }

    package func optionalByteas(_ column: Int) throws(PostgresError) -> [[UInt8]?]? {
        try value(column, .byteas) { $0.array(of: .bytea) { $0.bytea() } }
    }

    // MARK: - Checks

    package func isNull(_ column: Int) throws(PostgresError) -> Bool {
        try check(column)
        return answer.isNull(row, column)
    }

    private func value<Value>(
        _ column: Int, _ type: PostgresType, _ read: (inout ValueReader) -> Value?
    ) throws(PostgresError) -> Value? {
        try check(column)
        let found = answer.type(column)
        guard found.isReadable(as: type) else {
            throw unreadable(column, "has the type with OID \(found.rawValue), not \(type.rawValue)")
        }
        if answer.isNull(row, column) { return nil }
        let value = answer.withBytes(row, column) { bytes in
            var reader = ValueReader(bytes)
            return read(&reader)
        }
        guard let value else { throw unreadable(column, "does not have the binary form of its type") }
        return value
    }

    private func required<Value>(_ column: Int, _ value: Value?) throws(PostgresError) -> Value {
        guard let value else { throw unreadable(column, "is NULL") }
        return value
    }

    private func check(_ column: Int) throws(PostgresError) {
        guard column >= 0, column < answer.columnCount else { throw unreadable(column, "does not exist") }
    }

    private func unreadable(_ column: Int, _ problem: String) -> PostgresError {
        PostgresError(.unreadable, "Column \(column) of a result \(problem).")
    }
}
