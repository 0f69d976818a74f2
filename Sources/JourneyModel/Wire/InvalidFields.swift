/// All errors in the members of one body, at most one for each pointer, in the order of the contract's tables.
/// Never empty.
public struct InvalidFields: Error, Hashable, Sendable {
    public var errors: [FieldError]

    public init(_ errors: [FieldError]) {
        self.errors = errors
    }
}

/// Why a request body was rejected before anything was done with it. Both cases are 400; a retry never succeeds.
public enum BodyRefusal: Error, Hashable, Sendable {
    /// `malformed_json`
    case malformedJSON(JSONError)
    /// `validation_failed`
    case invalid(InvalidFields)
}
