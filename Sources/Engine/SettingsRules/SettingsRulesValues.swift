// Reads the values in the file SETTINGS_RULES_FILE. Each value that is not allowed is recorded as one problem.

import JourneyModel

package struct SettingsRulesProblem: Hashable, Sendable, CustomStringConvertible {
    /// The line in the file; the first line is 1.
    package var line: Int
    /// The name of the rule, or its number if the rule has no valid name. Nil if the problem is not in a rule.
    package var rule: String?
    package var detail: String

    package var description: String {
        "line \(line)" + (rule.map { ", rule \($0)" } ?? "") + ": \(detail)"
    }
}

/// The file cannot be used.
package struct SettingsRulesError: Error, Hashable, Sendable {
    /// The problems in the order in which they were found: at least one, at most `problemsMax`.
    package var problems: [SettingsRulesProblem]
}

extension SettingsRulesReader {
    mutating func members(
        of value: LocatedJSON, _ what: String, allowed: [String]
    ) -> [String: LocatedJSON]? {
        guard case .object(let members) = value.content else {
            note(value.offset, "\(what) must be a JSON object")
            return nil
        }
        var found: [String: LocatedJSON] = [:]
        for member in members {
            if allowed.contains(member.name) {
                found[member.name] = member.value
            } else {
                note(
                    member.nameOffset,
                    "unknown member \(Self.shown(member.name)); allowed is one of \(allowed.joined(separator: ", "))")
            }
        }
        return found
    }

    mutating func required<Value>(
        _ value: LocatedJSON?, _ name: String, of element: LocatedJSON, _ allowed: String, _ read: (String) -> Value?
    ) -> Value? {
        if value == nil { note(element.offset, "\(name) is missing; allowed is \(allowed)") }
        return optional(value, name, allowed, read)
    }

    mutating func optional<Value>(
        _ value: LocatedJSON?, _ name: String, _ allowed: String, _ read: (String) -> Value?
    ) -> Value? {
        guard let value else { return nil }
        if case .scalar(.string(let text)) = value.content, let result = read(text) { return result }
        refuse(value, name, allowed)
        return nil
    }

    /// Reads an array of texts that must all be different.
    mutating func list<Value: Hashable>(
        _ value: LocatedJSON?, _ name: String, max: Int, _ allowed: String, _ read: (String) -> Value?
    ) -> [Value]? {
        guard let value else { return nil }
        guard case .array(let elements) = value.content, (1...max).contains(elements.count) else {
            refuse(value, name, "an array of 1 to \(max) texts")
            return nil
        }
        var found: [Value] = []
        var seen: Set<Value> = []
        for element in elements {
            guard case .scalar(.string(let text)) = element.content, let result = read(text) else {
                refuse(element, name, allowed)
                continue
            }
            if seen.insert(result).inserted { found.append(result) } else { refuse(element, name, "each only once") }
        }
        return found
    }

    // MARK: Problems

    mutating func refuse(_ value: LocatedJSON, _ name: String, _ allowed: String) {
        note(value.offset, "\(name)=\(Self.shown(value)) is not allowed; allowed is \(allowed)")
    }

    mutating func note(_ offset: Int, _ detail: String) {
        guard problems.count < SettingsRules.problemsMax else { return }
        let line = LocatedJSON.line(ofOffset: offset, in: text)
        problems.append(SettingsRulesProblem(line: line, rule: rule, detail: detail))
    }

    private static func shown(_ value: LocatedJSON) -> String {
        switch value.content {
        case .array: "[...]"
        case .object: "{...}"
        case .scalar(.string(let text)): shown(text)
        case .scalar(.number(let text)): text
        case .scalar(.bool(let value)): "\(value)"
        case .scalar: "null"
        }
    }

    /// Quotes the first 64 characters of the text, and escapes control characters.
    static func shown(_ text: String) -> String {
        let scalars = text.unicodeScalars.prefix(64).map { isControl($0) ? $0.escaped(asASCII: true) : String($0) }
        return "\"\(scalars.joined())\"" + (text.unicodeScalars.count > 64 ? "..." : "")
    }

    static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .format: true
        default: false
        }
    }

    // MARK: Names

    static let nameRule = "a name of 1 to 64 letters, digits, dots, hyphens and underscores"

    static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "-._".utf8.contains($0) }
    }
}
