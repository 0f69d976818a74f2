// Details: the optional members that only describe an event. Each detail is declared once, in `all`, and its `Form`
// decides how it is decoded. All other code handles the details of an event as one value.

/// One optional member of an event that the server itself does not use. The members that the server uses are in
/// `EventMemberName`.
public struct EventDetail: Hashable, Sendable {
    /// The values that are accepted.
    public enum Form: Hashable, Sendable {
        /// 1 to `charactersMax` Unicode scalars without control characters.
        case text(charactersMax: Int)
        case oneOf([String])
        case integer(ClosedRange<Int64>)
        case truth
    }

    /// The name on the wire. It must differ from every name in `EventMemberName`, and from every other member of the
    /// responses that contain events.
    public var name: String
    public var form: Form

    public init(_ name: String, _ form: Form) {
        self.name = name
        self.form = form
    }

    /// All details, in the alphabetical order of their names; at present there are none. The order is fixed, because
    /// stored digests depend on it.
    public static let all: [EventDetail] = []
}

extension EventDetail.Form {
    /// The error text for a value that does not have this form.
    var rule: String {
        switch self {
        case .text(let charactersMax): MemberReader.textRule(charactersMax: charactersMax)
        case .oneOf(let texts): "must be \(texts.joined(separator: " or "))"
        case .integer(let range): "must be an integer from \(range.lowerBound) to \(range.upperBound)"
        case .truth: "must be true or false"
        }
    }

    /// If the value has this form, writes it in a fixed notation and returns true. Otherwise writes nothing and returns
    /// false.
    func write(_ value: EventMember, named name: String, to writer: inout JSONWriter) -> Bool {
        switch (self, value) {
        case (.text(let charactersMax), .text(let text)):
            let text = text.string
            guard MemberReader.isText(text, charactersMax: charactersMax) else { return false }
            writer.name(name)
            writer.string(text)
        case (.oneOf(let texts), .text(let text)):
            let text = text.string
            guard texts.contains(where: { haveSameBytes($0, text) }) else { return false }
            writer.name(name)
            writer.string(text)
        case (.integer(let range), .number(let text)):
            guard let number = WholeNumber.read(text), range.contains(number) else { return false }
            writer.name(name)
            writer.integer(number)
        case (.truth, .truth(let value)):
            writer.name(name)
            writer.bool(value)
        default:
            return false
        }
        return true
    }
}
