// Reads text files whose paths an operator sets, such as the environment file, secrets, keys and pages.

import Foundation

/// The reason why a file cannot be used. The text is for the operator. It contains no part of the file's content.
struct TextFileError: Error {
    var reason: String
    var isMissing = false
}

/// Returns the file's text. Throws if the file cannot be read, is not UTF-8, or has more than `bytesMax` bytes.
func readTextFile(_ path: String, bytesMax: Int) throws(TextFileError) -> String {
    guard let descriptor = FileHandle(forReadingAtPath: path) else {
        let reason = String(cString: strerror(errno))
        throw TextFileError(reason: reason, isMissing: errno == ENOENT)
    }
    defer { try? descriptor.close() }
    let data: Data
    do {
        data = try descriptor.read(upToCount: bytesMax + 1) ?? Data()
    } catch {
        throw TextFileError(reason: "it cannot be read")
    }
    guard data.count <= bytesMax else { throw TextFileError(reason: "it has more than \(bytesMax) bytes") }
    guard let text = String(bytes: data, encoding: .utf8) else { throw TextFileError(reason: "it is not UTF-8 text") }
    return text
}
