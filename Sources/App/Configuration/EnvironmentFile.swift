// The environment file (`.env`) with lines of NAME=value. The parser is pure: it turns text into names and values.
//
// The parsed values are passed to swift-configuration's EnvironmentVariablesProvider. The provider's own parser of
// files (`environmentFilePath`) is not used, for three reasons:
// - It silently skips a line that it cannot read (`HTTP_PORT 8080`).
// - It cannot list the names, so a mistyped name could not be reported.
// - It treats quotes as part of the value.
//
// A line is `NAME=value`, `export NAME=value`, a comment that begins with `#`, or blank. If several lines set the same
// name, the last of them applies.
//
// Single or double quotes around a value are removed. Escapes, `$NAME` and `#` have no special meaning in a value.

import Foundation

struct EnvironmentFile: Sendable {
    struct Entry: Sendable {
        var value: String
        var line: Int
    }

    let path: String
    private(set) var entries: [String: Entry] = [:]
    /// The numbers of the lines that do not have the format described at the top of this file. The content of such a
    /// line is not kept, because it may be a secret.
    private(set) var unreadableLines: [Int] = []

    /// The maximum size of an environment file in bytes. Real files are far shorter. The limit protects memory if the
    /// path names a large file by mistake.
    static let fileBytesMax = 1 << 20

    /// Parses the text. A line that sets `ignoredName` is allowed but has no effect.
    init(path: String, text: String, without ignoredName: String) {
        self.path = path
        let lines = text.split(omittingEmptySubsequences: false) { $0.isNewline }
        for (index, line) in lines.enumerated() {
            parse(line.trimmingCharacters(in: .whitespaces), number: index + 1)
        }
        entries[ignoredName] = nil
    }

    private mutating func parse(_ line: String, number: Int) {
        guard !line.isEmpty, !line.hasPrefix("#") else { return }
        let assignment = line.hasPrefix("export ") ? String(line.dropFirst(7)) : line
        let parts = assignment.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts[0].trimmingCharacters(in: .whitespaces)
        guard parts.count == 2, Self.isName(name) else {
            unreadableLines.append(number)
            return
        }
        let value = Self.unquoted(parts[1].trimmingCharacters(in: .whitespaces))
        entries[name] = Entry(value: value, line: number)
    }

    /// Returns whether the text is a name as defined in POSIX.1-2017, section 8.1, except that lowercase letters are
    /// also allowed.
    private static func isName(_ text: String) -> Bool {
        guard let first = text.unicodeScalars.first, first == "_" || (first.isASCII && first.properties.isAlphabetic)
        else { return false }
        return text.unicodeScalars.allSatisfy { scalar in
            scalar.isASCII && (scalar == "_" || scalar.properties.isAlphabetic || scalar.properties.numericType != nil)
        }
    }

    private static func unquoted(_ text: String) -> String {
        guard text.count >= 2, let quote = text.first, quote == "\"" || quote == "'", text.last == quote else {
            return text
        }
        return String(text.dropFirst().dropLast())
    }
}
