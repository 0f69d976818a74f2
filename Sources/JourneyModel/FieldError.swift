/// An error in one member of a request body or in one header field. Its JSON form is
/// `{"pointer":"/occurred_at","detail":"..."}` (contract, section 5).
public struct FieldError: Error, Hashable, Sendable {
    /// A JSON Pointer (RFC 6901) into the body. For an error in a header field, the name of the field, for example
    /// `Idempotency-Key`.
    public var pointer: String
    /// A sentence for a person. It says what is wrong and what is allowed. It never repeats the value.
    public var detail: String

    public init(pointer: String, detail: String) {
        self.pointer = pointer
        self.detail = detail
    }
}
