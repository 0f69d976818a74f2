// The declaration of one environment variable: its name, the allowed values, its default, and how its text becomes
// a value. Pure: takes a text, returns a value or nil. Does not know where texts come from.

/// The part of a declaration that does not depend on the type of its value: enough for the table of check-config,
/// for ENV.example and for tests generated from the declarations.
protocol Declaration: Sendable {
    var name: String { get }
    var section: VariableSection { get }
    /// As written in ENV.example; empty when the variable is not set by default.
    var defaultText: String { get }
    var allowed: Allowed { get }
    var sentence: String { get }
    /// A secret is never printed, and `NAME_FILE` may name a file that contains it.
    var isSecret: Bool { get }
    /// Whether the text is a valid value.
    func accepts(_ text: String) -> Bool
}

extension Declaration {
    var fileVariableName: String { name + "_FILE" }
    /// An empty text counts as not set if the variable is optional; otherwise it is invalid.
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
    /// Described by the sentence.
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

/// A declared variable whose texts become values of that type; an optional type for one that may be unset.
struct Variable<Value: Sendable>: Declaration {
    let name: String
    let section: VariableSection
    let defaultText: String
    let defaultValue: Value
    let allowed: Allowed
    let isSecret: Bool
    let sentence: String
    /// Nil for an invalid text.
    let parse: @Sendable (String) -> Value?
    /// The value as shown to the operator; for a secret, the part that may be shown.
    let show: @Sendable (Value) -> String

    func accepts(_ text: String) -> Bool {
        parse(text) != nil
    }
}
