// The environment file (`.env`): lines of NAME=value. Pure: parses text into names and values.
//
// The values go to swift-configuration's EnvironmentVariablesProvider; the text is parsed here and not by that
// provider's `environmentFilePath`, for three reasons: it silently skips a line that it cannot read (`HTTP_PORT
// 8080`), its names cannot be listed, so that a mistyped one could not be reported, and it treats quotes as part of
// the value.
//
// A line is `NAME=value`, `export NAME=value`, a comment that begins with `#`, or blank. A value may be in single
// or double quotes, which are removed; nothing else in it is special: no escapes, no `$NAME`, no comment after it.
// Of two lines with the same name the later wins.

import Foundation

struct EnvironmentFile: Sendable {
    struct Entry: Sendable {
        var value: String
        var line: Int
    }

    let path: String
    private(set) var entries: [String: Entry] = [:]
    /// The numbers of the lines that are none of the above. Their content is not kept: it may be a secret.
    private(set) var unreadableLines: [Int] = []

    /// More than any environment file has; a path to something else must not exhaust memory.
    static let fileBytesMax = 1 << 20

    /// `ignoredName` may be in the file and has no effect there.
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

    /// POSIX.1-2017, section 8.1, in either case.
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
