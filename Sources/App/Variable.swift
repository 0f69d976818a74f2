// What one environment variable is: its name, what may be in it, what it is without one, and how its text becomes a
// value. Pure: a text goes in, a value or nil comes out. It refuses to know where texts come from.

/// The part of a declaration that does not depend on the type of its value: enough for the table of check-config, for
/// ENV.example and for tests that are generated from the declarations.
protocol Declaration: Sendable {
    var name: String { get }
    var section: VariableSection { get }
    /// As it is written in ENV.example; empty when the variable is not set by default.
    var defaultText: String { get }
    var allowed: Allowed { get }
    var sentence: String { get }
    /// A secret is never shown, and `NAME_FILE` may name a file that holds it.
    var isSecret: Bool { get }
    /// Whether the text is one that the variable takes.
    func accepts(_ text: String) -> Bool
}

extension Declaration {
    var fileVariableName: String { name + "_FILE" }
    /// An empty text counts as not set where not being set is a setting of its own; elsewhere it is a bad value.
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
    case limits = "Limits"
    case operation = "Operations"
    case engine = "The session engine on the phone: GET /native/config answers exactly these"
}

/// The values that a variable may have, as data.
enum Allowed: Sendable {
    case integers(ClosedRange<Int>)
    case words([String])
    /// Whatever the sentence describes.
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

/// A declared variable whose texts become values of that type; an optional type for one that may be left unset.
struct Variable<Value: Sendable>: Declaration {
    let name: String
    let section: VariableSection
    let defaultText: String
    let defaultValue: Value
    let allowed: Allowed
    let isSecret: Bool
    let sentence: String
    /// Nil for a text that is not allowed.
    let parse: @Sendable (String) -> Value?
    /// How the value is shown to the operator; for a secret, what of it may be.
    let show: @Sendable (Value) -> String

    func accepts(_ text: String) -> Bool {
        parse(text) != nil
    }
}
