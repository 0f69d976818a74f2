// A hash of a driver's stored data, by which a transfer notices that the driver was changed.
//
// Events are not part of the hash. A transfer finds new events by their numbers, and nearly every change of a stored
// event also changes the driver's row. Unfinished deletions and corrections of settings may change only events, so the
// hash includes `erasure` and `settings_correction`.
//
// The hash includes the driver's sessions, because the registration of a session changes no row except the session's.

import SharedTables

struct TransferMark {
    /// The target stores the hash, so it must be the same in all processes.
    private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    mutating func add(_ number: UInt64) {
        value = (value ^ number) &* 0x9E37_79B9_7F4A_7C15
        value ^= value >> 29
    }

    /// Adds all columns of a row.
    mutating func add(_ row: borrowing Columns) {
        for index in 0..<row.count {
            switch row.value(index) {
            case .null: add(1)
            case .integer(let integer):
                add(2)
                add(UInt64(bitPattern: integer))
            case .text(let text): add(text.utf8)
            case .blob(let bytes): add(bytes)
            }
        }
    }

    private mutating func add(_ bytes: some Collection<UInt8>) {
        add(UInt64(bytes.count) &+ 3)
        for byte in bytes { add(UInt64(byte)) }
    }
}

extension TransferMark {
    /// Returns the marks (hashes of the stored data) of all drivers, by row number. A correction of settings may change
    /// the events of any driver, so it changes all marks, and all drivers are copied again.
    static func all(on connection: OpaquePointer) throws(SQLiteError) -> [Int64: Int64] {
        var corrections = TransferMark()
        try forEach("SELECT * FROM settings_correction ORDER BY id", on: connection) { row in corrections.add(row) }
        var sums: [Int64: UInt64] = [:]
        try forEach("SELECT * FROM driver ORDER BY id", on: connection) { row in
            var mark = corrections
            mark.add(row)
            sums[row.integer(0)] = mark.value
        }
        for table in ["session", "erasure"] {
            try forEach("SELECT driver, * FROM \(table)", on: connection) { row in
                var mark = TransferMark()
                mark.add(row)
                sums[row.integer(0), default: 0] &+= mark.value
            }
        }
        return sums.mapValues { Int64(bitPattern: $0) }
    }

    private static func forEach(
        _ sql: String, on connection: OpaquePointer, _ visit: (borrowing Columns) -> Void
    ) throws(SQLiteError) {
        try PreparedStatement(sql, on: connection).forEach { (_) throws(SQLiteError) in
        } visit: { (row) throws(SQLiteError) in
            visit(row)
            return true
        }
    }
}
