// A JSON document as a value (RFC 8259). The value keeps the order of members and the text of numbers. White space and
// the escapes in strings are not kept.

public enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    /// The number's text exactly as sent, so that no value is rounded.
    case number(String)
    case string(String)
    case array([JSONValue])
    /// The members in the order sent. The parser rejects duplicate names.
    case object([JSONMember])
}

public struct JSONMember: Hashable, Sendable {
    public var name: String
    public var value: JSONValue

    public init(_ name: String, _ value: JSONValue) {
        self.name = name
        self.value = value
    }
}

extension JSONValue {
    /// The value of the member `name`. Nil if there is no such member, or if this value is not an object. Takes time
    /// linear in the number of members.
    public subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { haveSameBytes($0.name, name) }?.value
    }
}
