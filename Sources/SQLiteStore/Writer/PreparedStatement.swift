// A thin wrapper of sqlite3_stmt, for the writer and for reads of many rows. GRDB's `Statement` is not used, for two
// reasons:
//
// - It binds an array of boxed values. A row of 26 columns takes 6 µs with GRDB, and 1.8 µs with this wrapper.
// - A `Statement` that has failed must not be used again. The writer uses its statements again, for example after a
//   full disk.
//
// Not Sendable: used only on the queue of its connection.

import GRDBSQLite
import SharedTables

final class PreparedStatement {
    private let handle: OpaquePointer
    private let connection: OpaquePointer
    private let bindings: Bindings

    /// `connection` must exist as long as the statement. Calling sqlite3_close_v2 earlier is permitted: it frees the
    /// connection only after the statement is finalized.
    init(_ sql: String, on connection: OpaquePointer) throws(SQLiteError) {
        var handle: OpaquePointer?
        let code = sqlite3_prepare_v3(
            connection, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil)
        guard code == SQLITE_OK, let handle else { throw SQLiteError(code: code, on: connection) }
        self.handle = handle
        self.connection = connection
        bindings = Bindings(handle: handle, connection: connection)
    }

    deinit {
        sqlite3_finalize(handle)
    }

    /// Runs a statement that returns no rows. Clears the bindings even if the statement fails.
    func run(_ bind: (borrowing Bindings) throws(SQLiteError) -> Void = { _ in }) throws(SQLiteError) {
        defer { reset() }
        try bind(bindings)
        _ = try step()
    }

    /// Returns what `read` returns for the first row, or nil if there is no row.
    func first<Value>(
        _ bind: (borrowing Bindings) throws(SQLiteError) -> Void, read: (borrowing Columns) throws(SQLiteError) -> Value
    ) throws(SQLiteError) -> Value? {
        defer { reset() }
        try bind(bindings)
        guard try step() else { return nil }
        return try read(Columns(handle: handle))
    }

    /// Runs an INSERT and returns the row number. RETURNING is not used, because SQLite runs it like a trigger, with a
    /// temporary table and a statement journal.
    func inserted(_ bind: (borrowing Bindings) throws(SQLiteError) -> Void) throws(SQLiteError) -> Int64 {
        try run(bind)
        return sqlite3_last_insert_rowid(connection)
    }

    /// Runs a statement that may change rows, and returns whether it changed one. The statement is an UPDATE, a DELETE,
    /// or an INSERT with ON CONFLICT DO NOTHING.
    func changes(_ bind: (borrowing Bindings) throws(SQLiteError) -> Void) throws(SQLiteError) -> Bool {
        try run(bind)
        return sqlite3_changes(connection) > 0
    }

    /// Calls `visit` with each row of a query, until `visit` returns false.
    func forEach(
        _ bind: (borrowing Bindings) throws(SQLiteError) -> Void,
        visit: (borrowing Columns) throws(SQLiteError) -> Bool
    ) throws(SQLiteError) {
        defer { reset() }
        try bind(bindings)
        while try step() {
            guard try visit(Columns(handle: handle)) else { return }
        }
    }

    private func step() throws(SQLiteError) -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code: throw SQLiteError(code: code, on: connection)
        }
    }

    /// Ignores the result of sqlite3_reset, which only repeats the error of the last step.
    private func reset() {
        sqlite3_reset(handle)
        bindings.clear()
    }
}

/// Values for the parameters `?1`, `?2`, ... of a statement. A parameter that is not bound is NULL.
final class Bindings {
    /// Capacity of `kept` in bytes. It is enough for the texts and blobs of an event with some metadata.
    private static let keptBytesMax = 1536

    private let handle: OpaquePointer
    private let connection: OpaquePointer
    /// Copies of the bound texts and blobs, so that SQLite need not allocate memory for each of them. `clear` unbinds
    /// the texts and blobs before this memory is reused. The memory is freed after the statement is finalized, because
    /// the statement owns this object.
    private var kept: UnsafeMutableRawPointer?
    private var keptCount = 0

    fileprivate init(handle: OpaquePointer, connection: OpaquePointer) {
        self.handle = handle
        self.connection = connection
    }

    deinit {
        kept?.deallocate()
    }

    fileprivate func clear() {
        sqlite3_clear_bindings(handle)
        keptCount = 0
    }

    func set(_ index: Int32, _ value: Int64?) throws(SQLiteError) {
        guard let value else { return }
        try check(sqlite3_bind_int64(handle, index, value))
    }

    func set(_ index: Int32, _ text: String?) throws(SQLiteError) {
        guard let text else { return }
        // This call lets `bind` read the text in place. For a text that is not stored as UTF-8, it returns nil without
        // calling `bind`, and the text is converted below.
        if let code = text.utf8.withContiguousStorageIfAvailable({ bind(index, $0) }) { return try check(code) }
        var converted = text
        try check(converted.withUTF8 { bind(index, $0) })
    }

    private func bind(_ index: Int32, _ text: UnsafeBufferPointer<UInt8>) -> Int32 {
        let bytes = UnsafeRawBufferPointer(text)
        // A null pointer would make SQLite bind NULL.
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return sqlite3_bind_text(handle, index, "", 0, nil) }
        let kept = keep(bytes)
        return sqlite3_bind_text64(
            handle, index, (kept ?? start).assumingMemoryBound(to: CChar.self), UInt64(bytes.count),
            kept == nil ? Self.transient : nil, UInt8(SQLITE_UTF8))
    }

    func set(_ index: Int32, blob: some Sequence<UInt8>) throws(SQLiteError) {
        let code = blob.withContiguousStorageIfAvailable { bind(index, blob: UnsafeRawBufferPointer($0)) }
        try check(code ?? Array(blob).withUnsafeBytes { bind(index, blob: $0) })
    }

    /// Returns SQLite's result code, for `check`.
    func bind(_ index: Int32, blob bytes: UnsafeRawBufferPointer) -> Int32 {
        let kept = bytes.isEmpty ? nil : keep(bytes)
        return sqlite3_bind_blob64(
            handle, index, kept ?? bytes.baseAddress, UInt64(bytes.count), kept == nil ? Self.transient : nil)
    }

    /// SQLITE_TRANSIENT, which is the pointer -1 in C and is not imported by Swift. It makes SQLite copy the bytes
    /// during the call. With nil (SQLITE_STATIC), SQLite would not copy them.
    private static var transient: sqlite3_destructor_type { unsafeBitCast(-1, to: sqlite3_destructor_type.self) }

    /// Copies the bytes to memory that stays unchanged until `clear`. Returns nil if the bytes do not fit.
    private func keep(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawPointer? {
        guard let source = bytes.baseAddress, bytes.count <= Self.keptBytesMax - keptCount else { return nil }
        let kept = self.kept ?? .allocate(byteCount: Self.keptBytesMax, alignment: 1)
        self.kept = kept
        let copy = kept + keptCount
        copy.copyMemory(from: source, byteCount: bytes.count)
        keptCount += bytes.count
        return UnsafeRawPointer(copy)
    }

    func check(_ code: Int32) throws(SQLiteError) {
        guard code == SQLITE_OK else { throw SQLiteError(code: code, on: connection) }
    }
}

/// The columns of a statement's current row, counted from 0. Must not be used after the next step.
struct Columns: ~Copyable {
    fileprivate let handle: OpaquePointer

    func integer(_ index: Int32) -> Int64 {
        sqlite3_column_int64(handle, index)
    }

    func optionalInteger(_ index: Int32) -> Int64? {
        isNull(index) ? nil : integer(index)
    }

    /// Returns an empty text for NULL.
    func text(_ index: Int32) -> String {
        optionalText(index) ?? ""
    }

    func optionalText(_ index: Int32) -> String? {
        // sqlite3_column_bytes returns the length of the text only if it is called after sqlite3_column_text.
        guard let start = sqlite3_column_text(handle, index) else { return nil }
        let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, index)))
        return String(decoding: bytes, as: UTF8.self)
    }

    func isBlob(_ index: Int32, equalTo other: some Sequence<UInt8>) -> Bool {
        withBytes(index) { $0.elementsEqual(other) }
    }

    /// Calls `body` with the bytes of a blob or a text.
    func withBytes<Value>(_ index: Int32, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        // sqlite3_column_bytes is called after sqlite3_column_blob, as for texts.
        let start = sqlite3_column_blob(handle, index)
        return body(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, index))))
    }

    /// Returns an empty array for NULL.
    func blob(_ index: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(handle, index) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, index))))
    }

    var count: Int32 { sqlite3_column_count(handle) }

    /// Returns the value of a column of any type. Floating-point numbers have no case, because no table has any.
    func value(_ index: Int32) -> SQLValue {
        switch sqlite3_column_type(handle, index) {
        case SQLITE_NULL: .null
        case SQLITE_INTEGER: .integer(integer(index))
        case SQLITE_BLOB: .blob(blob(index))
        default: .text(text(index))
        }
    }

    private func isNull(_ index: Int32) -> Bool {
        sqlite3_column_type(handle, index) == SQLITE_NULL
    }
}
