// A temporary directory for one test's database files.

import Foundation

final class ScratchFolder: Sendable {
    let path: String

    /// Creates the directory. If `inMemory` is true, uses the file system in memory, provided that it has a gigabyte
    /// free. Tests that do not depend on a disk use this.
    init(inMemory: Bool = false) throws {
        let memory = inMemory ? Self.memory : nil
        path =
            (memory ?? FileManager.default.temporaryDirectory).appendingPathComponent("dwell-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    private static var memory: URL? {
        let path = "/dev/shm"
        let free = try? FileManager.default.attributesOfFileSystem(forPath: path)[.systemFreeSize] as? NSNumber
        guard let free, free.int64Value > 1 << 30, FileManager.default.isWritableFile(atPath: path) else { return nil }
        return URL(fileURLWithPath: path, isDirectory: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Copies the files that a power failure at this instant would leave: the database and its WAL. The shared-memory
    /// file is not copied, because SQLite's recovery creates it again.
    func copyDatabase(_ name: String, to copy: String) throws {
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: file(name) + suffix) {
            try FileManager.default.copyItem(atPath: file(name) + suffix, toPath: file(copy) + suffix)
        }
    }

    func removeDatabase(_ name: String) {
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: file(name) + suffix) }
    }
}
