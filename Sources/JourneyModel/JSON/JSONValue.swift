// A JSON document as a value (RFC 8259). It keeps the order of members and the text of numbers. It does not keep white
// space and the way in which strings were escaped.

public enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    /// The number's text, `-?int frac? exp?`, exactly as sent, so that no value is rounded implicitly.
    case number(String)
    case string(String)
    case array([JSONValue])
    /// In the order sent; the parser rejects duplicate names.
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
    /// The value of the member `name`; nil when there is none or this value is not an object. Takes time linear in the
    /// number of members.
    public subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { haveSameBytes($0.name, name) }?.value
    }
}
