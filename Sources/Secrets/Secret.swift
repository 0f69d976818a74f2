// A value that must not be shown: a key, a token, a password, a one-time code, a phone number, a coordinate. Every
// implicit conversion to text (interpolation, description, dump, Mirror) gives `<redacted>`, so code that logs the
// value by mistake does not reveal it.
//
// `Secret` is deliberately not Encodable, so that encoding it as JSON does not compile.

/// Holds a value that must not appear in a log line, error text or debugger dump. Only `reveal()` returns the value.
package struct Secret<Value: Sendable>: Sendable {
    private let value: Value

    package init(_ value: Value) {
        self.value = value
    }

    /// Returns the value itself, for the code that uses it. Do not put the result into text that leaves the process.
    package func reveal() -> Value {
        value
    }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { redacted }
    package var debugDescription: String { redacted }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Equality for settings and tests. The comparison is not constant-time, so it must never compare a secret with client
/// input.
extension Secret: Equatable where Value: Equatable {}

/// The text shown in place of a secret, everywhere.
package let redacted = "<redacted>"
