// How the value of an exported column becomes a member of a JSON object.

import Engine
import JourneyModel

/// The name and the form of a JSON member. Both are derived from the name of a column, once per list and not once per
/// value, because an export may have millions of values.
package struct ExportColumn: Sendable {
    fileprivate enum Form: Sendable {
        case plain, boolean
        /// Milliseconds since 1970, written as RFC 3339 text.
        case time
        /// A number that stands for a word of the API, for example the name of a state.
        case word(@Sendable (Int64) -> String?)
        /// The steps that an event implies, stored as a number and written as an array of their names.
        case steps
        /// JSON, copied into the document. A column stores it, or the query builds it.
        case json
        /// A JSON object whose members are written into the current object. NULL adds no member.
        case members
        /// UTF-8 of JSON, stored as a BLOB.
        case payload
    }

    fileprivate let member: String
    fileprivate let form: Form

    /// - Parameter column: the column's name. The name of a time ends with `_ms`, which the JSON member's name lacks.
    ///   The name of a Boolean begins with `is_`, `has_` or `forwards_`.
    package init(_ column: String) {
        var member = column
        switch column {
        case "transition": form = .word { Verdict.Transition(code: $0)?.rawValue }
        case "reason": form = .word { Verdict.Reason(code: $0)?.rawValue }
        case "state": form = .word { JourneyState(code: $0)?.rawValue }
        case "ended_by": form = .word { Journey.Ending(code: $0)?.rawValue }
        case "clock_rule": form = .word { ClockRule(code: $0)?.rawValue }
        case "implied": form = .steps
        case "metadata", "notifications": form = .json
        case "details": form = .members
        case "payload": form = .payload
        // These are differences of two times, in milliseconds.
        case "skew_ms", "last_correction_ms": form = .plain
        case _ where column.hasSuffix("_ms"):
            member.removeLast(3)
            form = .time
        case _ where ["is_", "has_", "forwards_"].contains(where: column.hasPrefix): form = .boolean
        default: form = .plain
        }
        self.member = member
    }
}

extension JSONWriter {
    package mutating func member(_ column: ExportColumn, _ value: SQLValue) {
        if case .members = column.form {
            if case .text(let object) = value { members(ofObject: object) }
            return
        }
        name(column.member)
        switch (column.form, value) {
        case (.time, .integer(let milliseconds)):
            string(RFC3339.text(of: Moment(millisecondsSinceEpoch: milliseconds)))
        case (.word(let word), .integer(let code)):
            if let word = word(code) { string(word) } else { null() }
        case (.steps, .integer(let code)):
            beginArray()
            for name in (ImpliedSteps(code: code) ?? []).names { string(name) }
            endArray()
        case (.boolean, .integer(let number)): bool(number != 0)
        case (_, .integer(let number)): integer(number)
        case (.json, .text(let text)): raw(text)
        case (_, .text(let text)): string(text)
        case (.payload, .blob(let bytes)): raw(String(decoding: bytes, as: UTF8.self))
        case (_, .null), (_, .blob): null()
        }
    }

    /// Writes a member for each column. `values` are in the order of `columns`.
    package mutating func members(_ columns: [ExportColumn], _ values: [SQLValue]) {
        for (column, value) in zip(columns, values) { member(column, value) }
    }
}
