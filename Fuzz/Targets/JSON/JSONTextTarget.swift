// Parses arbitrary bytes as a JSON text. JSONValue.parse must refuse every text that JSONGrammar refuses. It must
// accept every other text, unless the text has certain defects, such as too deep nesting.
//
// An accepted text must not change when it is written and parsed again. Foundation must accept such a text too, and
// find the same values.
//
// Input: the text.

import Foundation
import JourneyModel

func fuzzJSONText(_ input: [UInt8]) throws(Finding) {
    let grammar = JSONGrammar(input)
    let value: JSONValue
    do {
        value = try JSONValue.parse(input)
    } catch {
        try require((0...input.count).contains(error.offset), "An error outside of the text.")
        return try check(error, grammar)
    }
    try require(grammar.isJSON, "Accepted, and no JSON.")
    try require(grammar.depth <= 64, "Accepted, and nested more than 64 deep.")
    try require(String(validating: input, as: UTF8.self) != nil, "Accepted, and no UTF-8.")
    let compact = value.compact
    let again = try? JSONValue.parse(Array(compact.utf8))
    try require(again?.compact.utf8.elementsEqual(compact.utf8) == true, "Written and read, it is another text.")
    try require(again == value, "Written and read, it is another value.")
    try require(compact.utf8.count <= 3 * input.count, "The compact text is longer than escapes explain.")

    guard !hasNumberBeyondDouble(value) else { return }
    guard let other = foundationValue(input) else { throw Finding("Foundation refuses what is accepted.") }
    // Foundation drops U+FEFF from the beginning of a string, as if it were the byte order mark of a file. Do not
    // compare values that contain it.
    if !compact.unicodeScalars.contains("\u{FEFF}") { try compare(value, other) }
}

/// Throws unless the error agrees with the grammar. JSONValue.parse may refuse JSON only for one of five reasons.
private func check(_ error: JSONError, _ grammar: JSONGrammar) throws(Finding) {
    switch error.reason {
    case .duplicateName, .loneSurrogate, .invalidUTF8, .numberTooLong:
        // A text that is refused for one of these four reasons must be JSON. The exception is a text nested more than
        // 64 deep, because JSONValue.parse does not check the grammar below that depth.
        try require(grammar.isJSON || grammar.depth > 64, "\(error.reason) in what is no JSON.")
    case .tooDeep:
        try require(grammar.depth > 64, "Not more than 64 deep.")
    default:
        try require(!grammar.isJSON, "JSON, and refused: \(error.detail)")
    }
}

private func foundationValue(_ input: [UInt8]) -> Any? {
    try? JSONSerialization.jsonObject(with: Data(input), options: [.fragmentsAllowed])
}

/// Returns whether the value contains a number outside the range of Double. Foundation refuses such a number, but
/// JSONValue keeps every number as text.
private func hasNumberBeyondDouble(_ value: JSONValue) -> Bool {
    switch value {
    case .null, .bool, .string: false
    case .number(let text): Double(text)?.isFinite != true
    case .array(let elements): elements.contains(where: hasNumberBeyondDouble)
    case .object(let members): members.contains { hasNumberBeyondDouble($0.value) }
    }
}

/// Returns whether two numbers are nearly equal. Foundation converts numbers through a decimal type of its own, so the
/// last bits may differ.
private func areNear(_ one: Double, _ other: Double) -> Bool {
    abs(one - other) <= max(abs(one), abs(other)) * 1e-12 || max(abs(one), abs(other)) < 1e-100
}

private func compare(_ value: JSONValue, _ other: Any) throws(Finding) {
    switch value {
    case .null:
        try require(other is NSNull, "null, read otherwise.")
    case .bool(let bool):
        try require(other as? Bool == bool, "A literal, read otherwise.")
    case .number(let text):
        let isNear = (other as? NSNumber).map { areNear($0.doubleValue, Double(text) ?? .nan) }
        try require(isNear == true, "A number, read otherwise: \(text).")
    case .string(let text):
        let isSame = (other as? String).map { text.utf8.elementsEqual($0.utf8) }
        try require(isSame == true, "A string, read otherwise.")
    case .array(let elements):
        guard let others = other as? [Any], others.count == elements.count else {
            throw Finding("An array, read otherwise.")
        }
        for (element, other) in zip(elements, others) { try compare(element, other) }
    case .object(let members):
        guard let others = other as? [String: Any] else { throw Finding("An object, read otherwise.") }
        for member in members {
            // Two names with different bytes may be equal as Strings. Foundation's dictionary keeps only one of their
            // values, and it is unknown which. Do not compare values in this case.
            guard let other = others[member.name] else { throw Finding("A member that Foundation does not have.") }
            if others.count == members.count { try compare(member.value, other) }
        }
    }
}
