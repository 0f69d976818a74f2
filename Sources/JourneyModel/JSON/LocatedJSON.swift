// A JSON document that stores the position of each value. It is used for files that people edit, so that an error
// message can name the line.

public struct LocatedJSON: Hashable, Sendable {
    public enum Content: Hashable, Sendable {
        /// A text, a number, a Boolean or null.
        case scalar(JSONValue)
        case array([LocatedJSON])
        /// The members in the order of the text. The parser rejects duplicate names.
        case object([Member])
    }

    public struct Member: Hashable, Sendable {
        public var name: String
        /// The position of the name, in bytes from the start of the text.
        public var nameOffset: Int
        public var value: LocatedJSON
    }

    public var content: Content
    /// The position of the value's first byte, in bytes from the start of the text.
    public var offset: Int

    /// Reads one JSON text, by the same rules as `JSONValue.parse`.
    public static func parse(_ text: [UInt8]) throws(JSONError) -> LocatedJSON {
        try text.withUnsafeBufferPointer { bytes throws(JSONError) in
            var parser = JSONParser(bytes)
            let value = try parser.located(depth: 0)
            try parser.end()
            if let refusal = parser.refusal { throw refusal }
            return value
        }
    }

    /// Returns the line of the byte at `offset`, counted from 1.
    public static func line(ofOffset offset: Int, in text: [UInt8]) -> Int {
        1 + text.prefix(offset).count { $0 == UInt8(ascii: "\n") }
    }
}

extension JSONParser {
    fileprivate mutating func located(depth: Int) throws(JSONError) -> LocatedJSON {
        let first = startOfValue()
        let start = offset
        guard first == UInt8(ascii: "{") || first == UInt8(ascii: "[") else {
            return LocatedJSON(content: .scalar(try value(depth: depth)), offset: start)
        }
        guard depth < Self.depthMax else { throw JSONError(.tooDeep, offset: start) }
        if first == UInt8(ascii: "[") {
            var elements: [LocatedJSON] = []
            try self.elements { parser throws(JSONError) in elements.append(try parser.located(depth: depth + 1)) }
            return LocatedJSON(content: .array(elements), offset: start)
        }
        var members: [LocatedJSON.Member] = []
        var names = JSONNames()
        try list(from: UInt8(ascii: "{"), to: UInt8(ascii: "}")) { parser throws(JSONError) in
            let nameOffset = try parser.startOfName()
            let name = try parser.name(&names, after: members.lazy.map(\.name))
            let value = try parser.located(depth: depth + 1)
            members.append(LocatedJSON.Member(name: name, nameOffset: nameOffset, value: value))
        }
        return LocatedJSON(content: .object(members), offset: start)
    }
}
