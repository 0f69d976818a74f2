// The kinds of variables: whole numbers, words (one of a fixed set), Booleans, texts and secrets. The parser of numbers
// is strict and rejects ` 40`, `+40`, `40s` and `0x28`. JourneyModel parses the numbers of the session engine.

extension Variable<Int> {
    static func integer(
        _ name: String, _ section: VariableSection, default value: Int, in range: ClosedRange<Int>, _ sentence: String
    ) -> Self {
        Variable(
            name: name, section: section, defaultText: String(value), defaultValue: value,
            allowed: .integers(range), isSecret: false, sentence: sentence,
            parse: { wholeNumber($0, in: range) }, show: { String($0) })
    }
}

extension Variable<Int?> {
    static func integer(
        _ name: String, _ section: VariableSection, in range: ClosedRange<Int>, unset: String, _ sentence: String
    ) -> Self {
        Variable(
            name: name, section: section, defaultText: "", defaultValue: nil, allowed: .integers(range),
            isSecret: false, sentence: sentence,
            parse: { wholeNumber($0, in: range).map(Optional.some) }, show: { $0.map(String.init) ?? unset })
    }
}

extension Variable<Bool> {
    static func boolean(
        _ name: String, _ section: VariableSection, default value: Bool, _ sentence: String
    ) -> Self {
        Variable(
            name: name, section: section, defaultText: String(value), defaultValue: value,
            allowed: .words(["true", "false"]), isSecret: false, sentence: sentence,
            parse: { Bool($0) }, show: { String($0) })
    }
}

extension Variable<String> {
    static func text(
        _ name: String, _ section: VariableSection, default value: String, allowed: String, _ sentence: String,
        where accepts: @escaping @Sendable (String) -> Bool
    ) -> Self {
        Variable(
            name: name, section: section, defaultText: value, defaultValue: value, allowed: .text(allowed),
            isSecret: false, sentence: sentence,
            parse: { accepts($0) ? $0 : nil }, show: { $0 })
    }
}

extension Variable<String?> {
    static func text(
        _ name: String, _ section: VariableSection, allowed: String, _ sentence: String,
        where accepts: @escaping @Sendable (String) -> Bool
    ) -> Self {
        Variable(
            name: name, section: section, defaultText: "", defaultValue: nil, allowed: .text(allowed),
            isSecret: false, sentence: sentence,
            parse: { accepts($0) ? .some($0) : nil }, show: { $0 ?? "not set" })
    }
}

extension Variable {
    /// Returns the declaration of a secret. `parse` converts a text to the value, or returns nil for an invalid text.
    /// `show` returns the part of the value that may be shown.
    static func secret<Kept: Sendable>(
        _ name: String, _ section: VariableSection, allowed: String, _ sentence: String,
        parse: @escaping @Sendable (String) -> Kept?, show: @escaping @Sendable (Kept) -> String = { _ in "set" }
    ) -> Self where Value == Kept? {
        Variable(
            name: name, section: section, defaultText: "", defaultValue: nil, allowed: .text(allowed),
            isSecret: true, sentence: sentence,
            parse: { parse($0).map(Optional.some) }, show: { $0.map(show) ?? "not set" })
    }
}

extension Variable where Value: CaseIterable & RawRepresentable<String> {
    static func words(
        _ name: String, _ section: VariableSection, default value: Value, _ sentence: String
    ) -> Self {
        Variable(
            name: name, section: section, defaultText: value.rawValue, defaultValue: value,
            allowed: .words(Value.allCases.map(\.rawValue)), isSecret: false, sentence: sentence,
            parse: { Value(rawValue: $0) }, show: { $0.rawValue })
    }
}

func wholeNumber(_ text: String, in range: ClosedRange<Int>) -> Int? {
    guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
    return Int(text).flatMap { range.contains($0) ? $0 : nil }
}

extension Variable {
    /// Returns the declaration of a variable that may be unset. `unset` describes what the server does if the variable
    /// is unset.
    static func words<Word: CaseIterable & RawRepresentable<String> & Sendable>(
        _ name: String, _ section: VariableSection, unset: String, _ sentence: String
    ) -> Self where Value == Word? {
        Variable(
            name: name, section: section, defaultText: "", defaultValue: nil,
            allowed: .words(Word.allCases.map(\.rawValue)), isSecret: false, sentence: sentence,
            parse: { Word(rawValue: $0).map(Optional.some) }, show: { $0?.rawValue ?? unset })
    }
}
