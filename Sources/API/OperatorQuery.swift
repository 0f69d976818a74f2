// The query parameters of the operator's lists. Unknown parameters are ignored. The errors of all known parameters are
// reported together.

import Engine
import Foundation
import JourneyModel

/// Reads the parameters of one query and collects their errors.
struct OperatorQuery {
    static let limitDefault = 50
    static let limitMax = 200

    private let parameters: [String: String]
    private(set) var errors: [FieldError] = []

    init(_ query: String?) {
        var parameters: [String: String] = [:]
        for part in (query ?? "").split(separator: "&") {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = pair.count > 1 ? String(pair[1]).removingPercentEncoding : ""
            guard let value else {
                errors.append(FieldError(pointer: "/\(pair[0])", detail: "must be percent-encoded UTF-8"))
                continue
            }
            if parameters.updateValue(value, forKey: String(pair[0])) != nil {
                errors.append(FieldError(pointer: "/\(pair[0])", detail: "must not be repeated"))
            }
        }
        // An HTML form sends an empty value for a field that was not filled in, so an empty value counts as absent.
        self.parameters = parameters.filter { !$0.value.isEmpty }
    }

    /// Returns a text of 1 to 128 characters without control characters; nil if the parameter is absent or invalid.
    ///
    /// Control characters are refused, because no stored text contains them. A NUL would also do harm: PostgreSQL
    /// rejects a statement whose parameter contains a NUL, and SQLite compares only what comes before the NUL.
    mutating func text(_ name: String) -> String? {
        guard let value = parameters[name] else { return nil }
        guard value.unicodeScalars.count <= 128, !value.unicodeScalars.contains(where: \.isControl) else {
            errors.append(
                FieldError(
                    pointer: "/\(name)", detail: "must have at most 128 characters, and no control characters"))
            return nil
        }
        return value
    }

    mutating func word<Word: RawRepresentable & CaseIterable>(_ name: String) -> Word? where Word.RawValue == String {
        guard let value = parameters[name] else { return nil }
        if let word = Word(rawValue: value) { return word }
        let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
        errors.append(FieldError(pointer: "/\(name)", detail: "must be one of \(words)"))
        return nil
    }

    mutating func flag(_ name: String) -> Bool? {
        guard let value = parameters[name] else { return nil }
        if value == "true" || value == "false" { return value == "true" }
        errors.append(FieldError(pointer: "/\(name)", detail: "must be true or false"))
        return nil
    }

    mutating func moment(_ name: String) -> Moment? {
        guard let value = parameters[name] else { return nil }
        if let moment = RFC3339.moment(from: value) { return moment }
        errors.append(
            FieldError(pointer: "/\(name)", detail: "must be an RFC 3339 time, such as 2026-11-20T08:00:00Z"))
        return nil
    }

    mutating func number(_ name: String, in range: ClosedRange<Int>) -> Int? {
        guard let value = parameters[name] else { return nil }
        if let number = Int(value), range.contains(number) { return number }
        errors.append(
            FieldError(
                pointer: "/\(name)", detail: "must be a whole number from \(range.lowerBound) to \(range.upperBound)"))
        return nil
    }

    mutating func limit() -> Int { number("limit", in: 1...Self.limitMax) ?? Self.limitDefault }

    mutating func cursor() -> Int64? {
        guard let value = parameters["cursor"] else { return nil }
        if case .event(let id) = PageCursor(value) { return id }
        errors.append(PageQuery.cursorIsUnknown)
        return nil
    }

    func finish() throws(ProblemResponse) {
        guard errors.isEmpty else { throw ProblemResponse(.invalid(InvalidFields(errors))) }
    }
}
