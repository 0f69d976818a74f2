// A folder for one test's database files, gone when the test lets go of it.

import Foundation

final class ScratchFolder: Sendable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.appendingPathComponent("dwell-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// What a crash at this instant would leave: the database and its WAL as they are. The shared-memory file is left
    /// out; recovery makes it anew, as after a loss of power.
    func copyDatabase(_ name: String, to copy: String) throws {
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: file(name) + suffix) {
            try FileManager.default.copyItem(atPath: file(name) + suffix, toPath: file(copy) + suffix)
        }
    }
}
