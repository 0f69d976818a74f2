/// The reason why a text was rejected as JSON, and the position of the error. It never contains a part of the text.
public struct JSONError: Error, Hashable, Sendable {
    public enum Reason: Hashable, Sendable {
        case unexpectedEnd
        case unexpectedByte
        case trailingBytes
        /// A string contains a control character without an escape (RFC 8259, section 7).
        case unescapedControlCharacter
        case invalidEscape
        case invalidNumber
        case numberTooLong
        case invalidUTF8
        /// A `\u` escape stands for only one half of a surrogate pair, which is not a character.
        case loneSurrogate
        case duplicateName
        case tooDeep
    }

    public var reason: Reason
    /// Offset in bytes from the start of the text.
    public var offset: Int

    public init(_ reason: Reason, offset: Int) {
        self.reason = reason
        self.offset = offset
    }

    /// A sentence for the client.
    public var detail: String {
        let what =
            switch reason {
            case .unexpectedEnd: "The JSON text is incomplete"
            case .unexpectedByte: "Unexpected byte in JSON"
            case .trailingBytes: "Unexpected bytes after the JSON text"
            case .unescapedControlCharacter: "A control character in a string must be escaped"
            case .invalidEscape: "Invalid escape sequence in JSON"
            case .invalidNumber: "Invalid JSON number"
            case .numberTooLong: "A number is longer than \(JSONParser.numberBytesMax) characters"
            case .invalidUTF8: "The text is not valid UTF-8"
            case .loneSurrogate: "Unpaired surrogate escape"
            case .duplicateName: "A member name appears twice in one object"
            case .tooDeep: "Arrays and objects are nested more than \(JSONParser.depthMax) deep"
            }
        return "\(what) (byte \(offset))."
    }
}
