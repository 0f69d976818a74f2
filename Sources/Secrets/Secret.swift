// A value that must not be shown: a key, a token, a password, a one-time code, a phone number, a coordinate.
// Redaction is by type, so that no logging call has to remember it: everything that turns a value into text
// implicitly (interpolation, description, dump, Mirror) gives `<redacted>`. Deliberately not Encodable, so that
// encoding it as JSON does not compile.

/// Holds a value that must not appear in a log line, error text or debugger dump. Only `reveal()` returns it.
package struct Secret<Value: Sendable>: Sendable {
    private let value: Value

    package init(_ value: Value) {
        self.value = value
    }

    /// The value itself, for the one place that uses it. Do not put the result into text that leaves the process.
    package func reveal() -> Value {
        value
    }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { redacted }
    package var debugDescription: String { redacted }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// For settings and tests. Not constant-time: never compare it with client input.
extension Secret: Equatable where Value: Equatable {}

/// The text shown in place of a secret, everywhere.
package let redacted = "<redacted>"
