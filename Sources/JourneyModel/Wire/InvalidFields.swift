/// Everything that is wrong with the members of one body, at most one error for each pointer, in the order of
/// the contract's tables. Never empty.
public struct InvalidFields: Error, Hashable, Sendable {
    public var errors: [FieldError]

    public init(_ errors: [FieldError]) {
        self.errors = errors
    }
}

/// Why a request body was refused before anything was done about it. Both are 400; a retry can never work.
public enum BodyRefusal: Error, Hashable, Sendable {
    /// `malformed_json`
    case malformedJSON(JSONError)
    /// `validation_failed`
    case invalid(InvalidFields)
}
