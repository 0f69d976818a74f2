// The declaration of one environment variable: its name, the allowed values, its default, and how its text becomes a
// value. Pure: takes a text, returns a value or nil.

/// The part of a declaration that does not depend on the type of its value. The table of `check-config`, ENV.example
/// and the tests generated from the declarations need only this part.
protocol Declaration: Sendable {
    var name: String { get }
    var section: VariableSection { get }
    /// The default as written in ENV.example; empty when the variable is not set by default.
    var defaultText: String { get }
    var allowed: Allowed { get }
    var sentence: String { get }
    /// Whether the value is a secret: it is never printed, and `NAME_FILE` may name a file that contains it.
    var isSecret: Bool { get }
    /// Returns whether the text is a valid value.
    func accepts(_ text: String) -> Bool
}

extension Declaration {
    var fileVariableName: String { name + "_FILE" }
    /// Whether the variable may be unset. An empty text then counts as unset; for other variables it is invalid.
    var isOptional: Bool { defaultText.isEmpty }
}

/// The headings of ENV.example, in its order.
enum VariableSection: String, CaseIterable, Sendable {
    case process = "The process"
    case http = "HTTP"
    case storage = "Storage"
    case tokens = "Tokens"
    case apple = "Sign in with Apple"
    case codes = "One-time codes"
    case purchases = "Purchases in the App Store"
    case limits = "Limits"
    case operation = "Operations"
    case engine = "The session engine on the phone: GET /native/config returns exactly these"
}

/// The values that a variable may have, as data.
enum Allowed: Sendable {
    case integers(ClosedRange<Int>)
    case words([String])
    /// Any text that fits the description.
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

/// A declared variable with values of type `Value`, which is an optional type if the variable may be unset.
struct Variable<Value: Sendable>: Declaration {
    let name: String
    let section: VariableSection
    let defaultText: String
    let defaultValue: Value
    let allowed: Allowed
    let isSecret: Bool
    let sentence: String
    /// Converts a text to a value; returns nil for an invalid text.
    let parse: @Sendable (String) -> Value?
    /// The value as shown to the operator; for a secret, the part that may be shown.
    let show: @Sendable (Value) -> String

    func accepts(_ text: String) -> Bool {
        parse(text) != nil
    }
}
