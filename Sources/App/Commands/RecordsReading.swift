// Opens a database file for one read of a command.

import ArgumentParser
import SQLiteStore

/// Opens the records in the file, calls `body` to read them, and closes them.
///
/// - Throws: `ExitCode.failure` if the records cannot be read. The reason is printed to standard error.
func reading<Records: RecordsReader, Value>(
    _ path: String, _ body: (Records) throws(RecordsUnreadable) -> Value
) throws -> Value {
    do throws(RecordsUnreadable) {
        let records = try Records(path: path)
        defer { records.close() }
        return try body(records)
    } catch {
        writeToStandardError("\(path): \(error)\n")
        throw ExitCode.failure
    }
}
