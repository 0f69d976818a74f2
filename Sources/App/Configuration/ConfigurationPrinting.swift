// Formats a ConfigurationReport as a table or as JSON. The functions are pure. They print each value only as
// `ReadVariable.shown`, which contains no secrets.

import Foundation

extension ConfigurationReport {
    /// Returns one row per variable, with aligned columns.
    func table() -> String {
        let rows =
            [["VARIABLE", "VALUE", "SOURCE", "ALLOWED"]]
            + variables.map { [$0.declaration.name, $0.shown, "\($0.source)", "\($0.declaration.allowed)"] }
        let widths = (0..<3).map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let cells = zip(row, widths).map { cell, width in
                cell + String(repeating: " ", count: width - cell.count)
            }
            return (cells + [row[3]]).joined(separator: "  ")
        }.joined(separator: "\n")
    }

    /// Returns one object with `ok`, `settings`, `problems` and `warnings`.
    func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let document = Document(
            ok: problems.isEmpty,
            settings: variables.map { variable in
                Document.Setting(
                    name: variable.declaration.name, value: variable.shown, source: "\(variable.source)",
                    allowed: "\(variable.declaration.allowed)", standard: variable.declaration.defaultText,
                    secret: variable.declaration.isSecret, sentence: variable.declaration.sentence)
            },
            problems: problems.map { Document.Problem(variable: $0.variable, message: $0.description) },
            warnings: warnings)
        return String(decoding: try encoder.encode(document), as: UTF8.self)
    }
}

private struct Document: Encodable {
    struct Setting: Encodable {
        var name: String
        var value: String
        var source: String
        var allowed: String
        var standard: String
        var secret: Bool
        var sentence: String

        enum CodingKeys: String, CodingKey {
            case name, value, source, allowed, secret
            case standard = "default"
            case sentence = "description"
        }
    }

    struct Problem: Encodable {
        var variable: String
        var message: String
    }

    var ok: Bool
    var settings: [Setting]
    var problems: [Problem]
    var warnings: [String]
}
