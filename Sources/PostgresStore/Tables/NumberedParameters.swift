// Converts the statements of SharedTables for PostgreSQL: a parameter `?1` becomes `$1`, and a parameter `?` becomes
// `$` with the next number.

import Postgres
import Synchronization

enum NumberedParameters {
    /// Leaves literals, quoted names and comments as they are. Each `?` without a number gets the next number.
    static func sql(_ sql: String) -> String {
        var output: [UInt8] = []
        output.reserveCapacity(sql.utf8.count + 16)
        let input = Array(sql.utf8)
        var index = 0
        var last = 0
        while index < input.count {
            if let end = endOfSkipped(input, index) {
                output += input[index..<end]
                index = end
                continue
            }
            let byte = input[index]
            index += 1
            guard byte == UInt8(ascii: "?") else {
                output.append(byte)
                continue
            }
            output.append(UInt8(ascii: "$"))
            let hasNumber = index < input.count && isDigit(input[index])
            if !hasNumber {
                last += 1
                output += String(last).utf8
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Returns the end of the literal, quoted name or comment that begins at `start`; nil if none begins there. A
    /// literal with a doubled quote, such as 'a''b', counts as two literals; both are skipped.
    private static func endOfSkipped(_ input: [UInt8], _ start: Int) -> Int? {
        let rest = input[start...]
        switch input[start] {
        case UInt8(ascii: "'"), UInt8(ascii: "\""):
            return rest.dropFirst().firstIndex(of: input[start]).map { $0 + 1 } ?? input.count
        case UInt8(ascii: "-") where rest.starts(with: "--".utf8):
            return rest.firstIndex(of: UInt8(ascii: "\n")) ?? input.count
        case UInt8(ascii: "/") where rest.starts(with: "/*".utf8):
            var index = start + 2
            while index + 1 < input.count {
                if input[index] == UInt8(ascii: "*"), input[index + 1] == UInt8(ascii: "/") { return index + 2 }
                index += 1
            }
            return input.count
        default: return nil
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}

/// All statements that were run so far, by their text. They are never removed: the code contains a fixed set of texts,
/// because values are passed as parameters.
final class TableStatements: Sendable {
    private let statements = Mutex<[String: PostgresStatement]>([:])

    /// The number of characters of the statement's text in its name.
    private static let nameLength = 30

    func statement(_ sql: String) -> PostgresStatement {
        statements.withLock { statements in
            if let known = statements[sql] { return known }
            // The number makes the name unique.
            let words = sql.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            let statement = PostgresStatement(
                "t\(statements.count + 1) \(words.prefix(Self.nameLength))", NumberedParameters.sql(sql))
            statements[sql] = statement
            return statement
        }
    }
}
