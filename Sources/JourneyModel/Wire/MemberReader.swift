// Reads the members of one JSON object and collects all errors, so that a client gets all of them at once. The reader
// checks only the form of values, for example the length of a text, and not their meaning.

public struct MemberReader: Sendable {
    private let members: [JSONMember]
    /// JSON Pointer to the object within its document, for example `/events/3`; empty for the root.
    private let pointer: String
    public private(set) var errors: [FieldError] = []

    /// Creates a reader of the members of `value`. If `value` is not an object, the reader has no members, and an error
    /// is recorded at `pointer`.
    public init(_ value: JSONValue, at pointer: String = "") {
        self.pointer = pointer
        if case .object(let members) = value {
            self.members = members
        } else {
            members = []
            errors = [FieldError(pointer: pointer, detail: "must be a JSON object")]
        }
    }

    /// Returns the value of the member `name`. Returns nil if the member is absent or `null`; the two have the same
    /// meaning.
    public func value(_ name: String) -> JSONValue? {
        guard let value = members.first(where: { haveSameBytes($0.name, name) })?.value, value != .null else {
            return nil
        }
        return value
    }

    /// Reads an optional text of 1 to `charactersMax` Unicode scalars without control characters.
    public mutating func text(_ name: String, charactersMax: Int = 128) -> String? {
        text(name, Self.textRule(charactersMax: charactersMax)) { Self.isText($0, charactersMax: charactersMax) }
    }

    static func textRule(charactersMax: Int) -> String {
        "must be a string of 1 to \(charactersMax) characters without control characters"
    }

    /// Reads an optional string. If the value is not a string, or if `isValid` rejects it, records an error with the
    /// text `rule`.
    public mutating func text(
        _ name: String, _ rule: @autoclosure () -> String, where isValid: (String) -> Bool
    ) -> String? {
        guard let value = value(name) else { return nil }
        if case .string(let text) = value, isValid(text) { return text }
        refuse(name, rule())
        return nil
    }

    /// Records an error if a required member is missing.
    public mutating func require(_ name: String, _ detail: String = "is required") {
        if value(name) == nil { refuse(name, detail) }
    }

    /// Records an error for the member `name`.
    public mutating func refuse(_ name: String, _ detail: @autoclosure () -> String) {
        note(FieldError(pointer: "\(pointer)/\(name)", detail: detail()))
    }

    /// Records an error, unless an error with the same pointer was recorded before. Only the first error of a member is
    /// reported.
    public mutating func note(_ error: FieldError) {
        errors.note(error)
    }

    static func isText(_ text: String, charactersMax: Int) -> Bool {
        let scalars = text.unicodeScalars
        // A text never has more scalars than UTF-8 bytes. If the bytes are within the limit, the scalars need not be
        // counted.
        guard !text.isEmpty, text.utf8.count <= charactersMax || scalars.count <= charactersMax else { return false }
        return !scalars.contains(where: \.isControl)
    }
}

extension [FieldError] {
    /// Adds an error, unless the list already has an error with the same pointer.
    mutating func note(_ error: FieldError) {
        if !contains(where: { $0.pointer == error.pointer }) { append(error) }
    }
}
