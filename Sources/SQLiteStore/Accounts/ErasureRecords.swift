// Reads the list of deletions from a database, or from a file printed by `dwell driver erasures`. The list contains
// only keyed hashes of driver ids. Without the signing key it identifies nobody, so it may be kept longer than any
// backup.

import Foundation
import GRDB
package import Identity
import JourneyModel
import SharedTables

package enum ErasureRecords {
    /// Maximum size of a list, so that a list always fits into memory. Real lists are far smaller.
    private static let listBytesMax = 256 * 1024 * 1024

    /// Returns the deletions in the file at `path`, oldest first. The file is a database of Dwell or a printed list.
    package static func read(_ path: String) throws(RecordsUnreadable) -> [RecordedErasure] {
        do {
            return try isDatabase(path) ? database(path) : list(path)
        } catch {
            throw RecordsUnreadable(error)
        }
    }

    /// Returns the deletions in a database.
    package static func read(database path: String) throws(RecordsUnreadable) -> [RecordedErasure] {
        do {
            return try database(path)
        } catch {
            throw RecordsUnreadable(error)
        }
    }

    private static func isDatabase(_ path: String) throws -> Bool {
        guard let handle = FileHandle(forReadingAtPath: path) else { throw RecordsUnreadable.missing }
        defer { try? handle.close() }
        return try handle.read(upToCount: 16) == Data("SQLite format 3\0".utf8)
    }

    /// Also reads databases of newer versions of Dwell. When an operator downgrades Dwell, `dwell restore` replaces
    /// such a database, but keeps the old file. The old file is often the only record of the latest deletions.
    private static func database(_ path: String) throws -> [RecordedErasure] {
        let queue = try RecordsFile.connect(path)
        defer { try? queue.close() }
        return try RecordsFile.read(queue) { db in
            try MigrationRun().requireDwellOfAnyVersion(db)
            return try ErasureRows.all(SQLiteTransaction(db))
        }
    }

    private static func list(_ path: String) throws -> [RecordedErasure] {
        // One byte more than the maximum is enough to notice that the file is too long.
        let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? handle.close() }
        let data = try handle.read(upToCount: listBytesMax + 1) ?? Data()
        guard data.count <= listBytesMax, let text = String(bytes: data, encoding: .utf8) else {
            throw RecordsUnreadable("neither a database nor a list of deletions")
        }
        // Even a list without deletions has a heading.
        guard !text.isEmpty else { throw RecordsUnreadable("the file is empty, without even the first line of a list") }
        var announced = 0
        var erasures: [RecordedErasure] = []
        for (index, line) in text.split(whereSeparator: \.isNewline).enumerated() {
            if let count = count(inHeading: line) {
                announced += count
            } else if let erasure = RecordedErasure(line: line) {
                erasures.append(erasure)
            } else {
                throw RecordsUnreadable("line \(index + 1) is not from a list printed by dwell driver erasures")
            }
        }
        // The list may have more deletions than announced. An operator may have appended a list of an older version,
        // which has no heading.
        guard erasures.count >= announced else {
            throw RecordsUnreadable("the list is truncated: it has \(erasures.count) of \(announced) deletions")
        }
        return erasures
    }

    /// Returns the first line of a list.
    package static func heading(count: Int) -> String { "# deletions: \(count)" }

    private static func count(inHeading line: some StringProtocol) -> Int? {
        let words = line.split(separator: " ")
        return words.count == 3 && words[0] == "#" && words[1] == "deletions:" ? Int(words[2]) : nil
    }

    /// Returns the number of deletions in the database at `path` that the database at `other` lacks or has with an
    /// earlier time.
    static func count(in path: String, missingFrom other: String) throws -> Int {
        let known = try database(other).reduce(into: [[UInt8]: Moment]()) { $0[$1.digest] = $1.at }
        return try database(path).count { erasure in known[erasure.digest].map { $0 < erasure.at } ?? true }
    }
}
