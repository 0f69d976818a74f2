// Reads the members of one JSON object and collects all that is wrong with them, so that a client hears of every
// mistake at once. It knows the forms that members share, not what they mean.

public struct MemberReader: Sendable {
    private let members: [JSONMember]
    /// Of the object within its document, for example `/events/3`; empty for the root.
    private let pointer: String
    public private(set) var errors: [FieldError] = []

    /// A value that is no object reads as one without members, and is an error at `pointer` itself.
    public init(_ value: JSONValue, at pointer: String = "") {
        self.pointer = pointer
        if case .object(let members) = value {
            self.members = members
        } else {
            members = []
            errors = [FieldError(pointer: pointer, detail: "must be a JSON object")]
        }
    }

    /// The member of that name; nil when it is absent or `null`, which are the same.
    public func value(_ name: String) -> JSONValue? {
        guard let value = members.first(where: { haveSameBytes($0.name, name) })?.value, value != .null else {
            return nil
        }
        return value
    }

    /// An optional text of 1 to `charactersMax` Unicode scalars without control characters.
    public mutating func text(_ name: String, charactersMax: Int = 128) -> String? {
        text(name, Self.textRule(charactersMax: charactersMax)) { Self.isText($0, charactersMax: charactersMax) }
    }

    static func textRule(charactersMax: Int) -> String {
        "must be a string of 1 to \(charactersMax) characters without control characters"
    }

    /// An optional string that `isValid` accepts; `rule` is what the client is told when it does not.
    public mutating func text(
        _ name: String, _ rule: @autoclosure () -> String, where isValid: (String) -> Bool
    ) -> String? {
        guard let value = value(name) else { return nil }
        if case .string(let text) = value, isValid(text) { return text }
        refuse(name, rule())
        return nil
    }

    /// Notes that a required member is not there.
    public mutating func require(_ name: String, _ detail: String = "is required") {
        if value(name) == nil { refuse(name, detail) }
    }

    /// Notes an error of the member of that name.
    public mutating func refuse(_ name: String, _ detail: @autoclosure () -> String) {
        note(FieldError(pointer: "\(pointer)/\(name)", detail: detail()))
    }

    /// Notes an error unless its place has one already: the first says what to mend first.
    public mutating func note(_ error: FieldError) {
        errors.note(error)
    }

    static func isText(_ text: String, charactersMax: Int) -> Bool {
        let scalars = text.unicodeScalars
        // UTF-8 is never shorter than the number of scalars, so that most texts need no counting.
        guard !text.isEmpty, text.utf8.count <= charactersMax || scalars.count <= charactersMax else { return false }
        return !scalars.contains(where: \.isControl)
    }
}

extension [FieldError] {
    /// Adds an error unless its place has one already.
    mutating func note(_ error: FieldError) {
        if !contains(where: { $0.pointer == error.pointer }) { append(error) }
    }
}
