// The key that a server generates on its first start and stores next to its database. It is for development only: with
// APP_ENV=production, the configuration rejects this key.
//
// The file holds 256 random bits as 64 hexadecimal digits. The secret is the text of these digits, not the bits that
// they encode. JWT_SECRET_FILE may name this file, because it expects a file of the same form.

import Crypto
import Foundation
import JourneyModel
import Secrets

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A file with a secret. Only the owner of the file may read it. If the file is missing, it is created.
package struct LocalKeyFile: Sendable {
    package let path: String

    package init(path: String) {
        self.path = path
    }

    /// Selects the key file that belongs to a database: for `var/dwell.sqlite3`, it is `var/dwell.sqlite3.jwt-key`.
    package init(besideDatabase databasePath: String) {
        self.init(path: databasePath + ".jwt-key")
    }

    /// Returns the key in the file, and creates the file first if it is missing. If two processes create the file at
    /// the same time, both return the same key.
    package func loadOrCreate() throws(SigningKeyError) -> SigningKey {
        if let key = try load() { return key }
        try create()
        guard let key = try load() else { throw .file(path: path, reason: "deleted right after it was created") }
        return key
    }

    /// Returns the key in the file; nil when there is no file.
    package func load() throws(SigningKeyError) -> SigningKey? {
        // Without O_NONBLOCK, open(2) of a FIFO waits for a writer.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw systemError()
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw systemError() }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .file(path: path, reason: "not a regular file") }
        guard status.st_mode & 0o077 == 0 else { throw .readableByOthers(path: path) }
        var buffer = [UInt8](repeating: 0, count: Self.fileBytesMax + 1)
        let count = read(descriptor, &buffer, buffer.count)
        guard count >= 0 else { throw systemError() }
        guard count <= Self.fileBytesMax else { throw .file(path: path, reason: "too long for a key") }
        let text = String(decoding: buffer.prefix(count), as: UTF8.self)
        return try SigningKey(secret: Secret(text.trimmingCharacters(in: .newlines)))
    }

    /// Writes the key into a file with another name, and links that file to `path`. No process can therefore read an
    /// incomplete key.
    ///
    /// link(2) fails if `path` exists. If two processes start at the same time, only one of them creates the file. Both
    /// use the key in it.
    private func create() throws(SigningKeyError) {
        try createFolder()
        let draft = path + ".\(getpid()).\(UInt64.random(in: 0 ... .max))"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw systemError() }
        defer {
            close(descriptor)
            unlink(draft)
        }
        let key = SymmetricKey(size: .bits256).withUnsafeBytes { $0.hexadecimal }
        let bytes = Array("\(key)\n".utf8)
        guard write(descriptor, bytes, bytes.count) == bytes.count, fsync(descriptor) == 0 else { throw systemError() }
        guard link(draft, path) == 0 || errno == EEXIST else { throw systemError() }
    }

    private func createFolder() throws(SigningKeyError) {
        let folder = URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false)
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw .file(path: folder, reason: "the directory cannot be created")
        }
    }

    private func systemError() -> SigningKeyError {
        .file(path: path, reason: String(cString: strerror(errno)))
    }

    /// Maximum length of the file in bytes. A generated key is shorter, but an operator may have put a longer secret
    /// into the file.
    private static let fileBytesMax = 1024
}
