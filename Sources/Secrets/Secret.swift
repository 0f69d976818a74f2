// A value that must not be shown, such as a key, a token, a one-time code, a phone number or a coordinate. Every
// implicit conversion to text (interpolation, description, dump, Mirror) gives `<redacted>`. Code that logs the value
// by mistake does not reveal it.
//
// `Secret` is deliberately not Encodable, so that encoding it as JSON does not compile.

/// Holds a value that must not appear in a log line, an error text or a debugger dump. Only `reveal()` returns the
/// value.
package struct Secret<Value: Sendable>: Sendable {
    private let value: Value

    package init(_ value: Value) {
        self.value = value
    }

    /// Returns the value itself. Do not put it into text that leaves the process.
    package func reveal() -> Value {
        value
    }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { redacted }
    package var debugDescription: String { redacted }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Equality for settings and tests. Must never compare a secret with client input, because the comparison is not
/// constant-time.
extension Secret: Equatable where Value: Equatable {}

/// The text shown in place of a secret, everywhere.
package let redacted = "<redacted>"
