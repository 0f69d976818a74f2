// Reads text files whose paths an operator sets, such as the environment file, secrets, keys and pages.

import Foundation

/// The reason why a file cannot be used. The text is for the operator. It contains no part of the file's content.
struct TextFileError: Error {
    var reason: String
    var isMissing = false
}

/// Returns the file's text. Throws if the file cannot be read, is not UTF-8, or has more than `bytesMax` bytes. A
/// symbolic link is followed.
///
/// - Parameter mayBePipe: whether the file may also be a pipe or a device. Commands pass true for arguments, such as
///   /dev/stdin. The server passes false, because it must not wait for a writer and must read the file again on SIGHUP.
func readTextFile(_ path: String, bytesMax: Int, mayBePipe: Bool = false) throws(TextFileError) -> String {
    // Without O_NONBLOCK, open(2) of a FIFO waits for a writer.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | (mayBePipe ? 0 : O_NONBLOCK))
    guard descriptor >= 0 else {
        let code = errno
        // open(2) fails with ENXIO for a socket.
        let reason = code == ENXIO ? "it is not a regular file" : String(cString: strerror(code))
        throw TextFileError(reason: reason, isMissing: code == ENOENT)
    }
    let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    defer { try? file.close() }
    if !mayBePipe, let kind = irregularKind(of: descriptor) {
        throw TextFileError(reason: "it is \(kind), not a regular file")
    }
    let data: Data
    do {
        data = try file.read(upToCount: bytesMax + 1) ?? Data()
    } catch {
        throw TextFileError(reason: "it cannot be read")
    }
    guard data.count <= bytesMax else { throw TextFileError(reason: "it has more than \(bytesMax) bytes") }
    guard let text = String(bytes: data, encoding: .utf8) else { throw TextFileError(reason: "it is not UTF-8 text") }
    return text
}

/// Returns the kind of the open file, such as `a directory`. Returns nil for a regular file and for /dev/null, which
/// reads as an empty file.
private func irregularKind(of descriptor: Int32) -> String? {
    var (status, null) = (stat(), stat())
    guard fstat(descriptor, &status) == 0 else { return nil }
    switch status.st_mode & S_IFMT {
    case S_IFREG: return nil
    case S_IFDIR: return "a directory"
    case S_IFIFO: return "a FIFO"
    case S_IFCHR where stat("/dev/null", &null) == 0 && null.st_rdev == status.st_rdev: return nil
    default: return "a device"
    }
}
