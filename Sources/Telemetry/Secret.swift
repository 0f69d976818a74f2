// A value that may not be shown: a key, a token, a password, a one-time code, a phone number, a coordinate.
// Redaction is by type, so that nobody has to remember it at the place where a line is logged: everything that turns
// a value into text without being asked - interpolation, description, dump, Mirror - gives `<redacted>`. It is not
// Encodable on purpose, so that JSON of it does not compile.

/// Holds a value that no log line, error text or debugger dump may show. Only `reveal()` gives it out.
package struct Secret<Value: Sendable>: Sendable {
    private let value: Value

    package init(_ value: Value) {
        self.value = value
    }

    /// The value itself, for the one place that uses it. Do not put the answer into text that leaves the process.
    package func reveal() -> Value {
        value
    }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { redacted }
    package var debugDescription: String { redacted }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// For settings and tests. Not in constant time: never compare what a client sent with it.
extension Secret: Equatable where Value: Equatable {}

/// What is written in the place of a secret, everywhere.
package let redacted = "<redacted>"
