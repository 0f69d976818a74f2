// Tests the error for a path that has no readable database file. The error must name the cause.

import Foundation
import GRDB
import Testing

@testable import SQLiteStore

struct OpeningObstacleTests {
    private let folder: ScratchFolder
    private let path: String

    init() throws {
        folder = try ScratchFolder(inMemory: true)
        path = folder.file("db")
    }

    /// Returns the errors of the server, of a command that only reads, of `dwell check` and of `dwell backup`.
    private func errors() -> [String] {
        let copy = folder.file("copy")
        let attempts: [() throws -> Void] = [
            { _ = try DatabaseOpening.open(path: path, nowMilliseconds: 0) },
            { _ = try AuditRecords(path: path) },
            { _ = try DatabaseCheck(path: path).run { _ in } },
            { try DatabaseBackup.make(of: path, to: copy, replacing: false) { _ in } },
        ]
        return attempts.map { attempt in
            do {
                try attempt()
                return "no error"
            } catch {
                return DatabaseOpening.reason(error, at: path)
            }
        }
    }

    @Test func `a directory`() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        for error in errors() { #expect(error.hasSuffix("it is a directory, not a database file")) }
    }

    @Test func `a FIFO, without waiting for a writer`() throws {
        try #require(mkfifo(path, 0o600) == 0)
        for error in errors() { #expect(error.hasSuffix("it is a FIFO, not a database file")) }
    }

    // The permissions of files do not apply to root.
    @Test(.enabled(if: getuid() != 0)) func `a file that this user may not read or write`() throws {
        try DatabaseOpening.open(path: path, nowMilliseconds: 0).close()
        try #require(chmod(path, 0) == 0)
        for error in errors() { #expect(error.contains("user id \(getuid()) may not read the file: run this as")) }
        try #require(chmod(path, 0o400) == 0)
        #expect(errors()[0].contains("user id \(getuid()) may not write the file: run this as"))
    }

    @Test(.enabled(if: getuid() != 0)) func `a directory in which this user may not create files`() throws {
        let inner = folder.file("inner")
        try FileManager.default.createDirectory(atPath: inner, withIntermediateDirectories: false)
        try #require(chmod(inner, 0o500) == 0)
        #expect {
            _ = try DatabaseOpening.open(path: inner + "/db", nowMilliseconds: 0)
        } throws: {
            DatabaseOpening.reason($0, at: inner + "/db")
                == "Permission denied: SQLite must create files in the directory \(inner)"
        }
    }
}
