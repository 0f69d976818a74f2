/// All errors in the members of one body, in the order of the contract's tables. There is at least one error, and at
/// most one for each pointer.
public struct InvalidFields: Error, Hashable, Sendable {
    public var errors: [FieldError]

    public init(_ errors: [FieldError]) {
        self.errors = errors
    }
}

/// The reason why a request body was rejected before it had any effect. The response is 400, or 403 for another
/// driver's event. A retry never succeeds.
public enum BodyRefusal: Error, Hashable, Sendable {
    /// `malformed_json`
    case malformedJSON(JSONError)
    /// `validation_failed`
    case invalid(InvalidFields)
    /// `forbidden`: `driver_id` names another driver, and the caller is not a service.
    case otherDriver
}
