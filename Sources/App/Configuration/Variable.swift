// The declaration of one environment variable: its name, the allowed values, its default, and the conversion of its
// text to a value. The conversion is pure: it returns a value, or nil for an invalid text.

/// The part of a declaration that does not depend on the type of the value. The table of `check-config`, ENV.example
/// and the generated tests need only this part.
protocol Declaration: Sendable {
    var name: String { get }
    var section: VariableSection { get }
    /// The default as written in ENV.example. Empty when the variable has no default.
    var defaultText: String { get }
    var allowed: Allowed { get }
    var sentence: String { get }
    /// Whether the value is a secret. A secret is never printed, and `NAME_FILE` may name a file that contains it.
    var isSecret: Bool { get }
    /// Returns whether the text is a valid value.
    func accepts(_ text: String) -> Bool
}

extension Declaration {
    var fileVariableName: String { name + "_FILE" }
    /// Whether the variable has no default and may be unset. An optional variable with an empty text counts as unset.
    /// Other variables parse an empty text like any text, and usually reject it.
    var isOptional: Bool { defaultText.isEmpty }
}

/// The headings of the sections of ENV.example, in the order of that file.
enum VariableSection: String, CaseIterable, Sendable {
    case process = "The process"
    case http = "HTTP"
    case storage = "Storage"
    case tokens = "Tokens"
    case apple = "Sign in with Apple"
    case codes = "One-time codes"
    case purchases = "Purchases in the App Store"
    case links = "Links and pages"
    case push = "Push notifications"
    case limits = "Limits"
    case operation = "Operations"
    case engine = "The session engine on the phone: GET /native/config returns exactly these"
}

/// A description of the values that a variable may have.
enum Allowed: Sendable {
    case integers(ClosedRange<Int>)
    case words([String])
    /// The associated value describes the allowed texts.
    case text(String)
}

extension Allowed: CustomStringConvertible {
    var description: String {
        switch self {
        case .integers(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .words(let words): "one of " + words.joined(separator: ", ")
        case .text(let text): text
        }
    }
}

/// A declared variable with values of type `Value`. If the variable may be unset, one value of `Value` stands for
/// "unset": nil or an empty list.
struct Variable<Value: Sendable>: Declaration {
    let name: String
    let section: VariableSection
    let defaultText: String
    let defaultValue: Value
    let allowed: Allowed
    let isSecret: Bool
    let sentence: String
    /// Converts a text to a value. Returns nil for an invalid text.
    let parse: @Sendable (String) -> Value?
    /// Converts a value to the text that the operator sees. The text contains no part of the value that must stay
    /// secret.
    let show: @Sendable (Value) -> String
    /// Returns what is wrong with an invalid text, without quoting a secret. Returns nil if the description in
    /// `allowed` already explains the error.
    var flaw: @Sendable (String) -> String? = { _ in nil }

    func accepts(_ text: String) -> Bool {
        parse(text) != nil
    }
}
