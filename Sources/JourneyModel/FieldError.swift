/// One error in one member of a request body or one header: the wire's `{"pointer":"/occurred_at","detail":"..."}`
/// (contract, section 5).
public struct FieldError: Error, Hashable, Sendable {
    /// A JSON Pointer (RFC 6901) into the body; for a header its field name, for example `Idempotency-Key`.
    public var pointer: String
    /// A sentence for a person: what is wrong and what is allowed. Never repeats the value.
    public var detail: String

    public init(pointer: String, detail: String) {
        self.pointer = pointer
        self.detail = detail
    }
}
