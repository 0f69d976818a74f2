// The JSON door: what other modules call.

extension JSONValue {
    /// Reads one JSON text, white space around it allowed and nothing else.
    ///
    /// Refused beyond what RFC 8259 demands, because two readers could understand it differently: member names
    /// that appear twice in an object, invalid UTF-8 (a byte order mark too), escapes of half a surrogate pair,
    /// more than 64 arrays and objects inside each other, a number of more than 64 characters.
    public static func parse(_ text: [UInt8]) throws(JSONError) -> JSONValue {
        try text.withUnsafeBufferPointer { bytes throws(JSONError) in try parse(bytes) }
    }

    /// The same; `text` is read during the call only.
    public static func parse(_ text: UnsafeRawBufferPointer) throws(JSONError) -> JSONValue {
        try text.withMemoryRebound(to: UInt8.self) { bytes throws(JSONError) in try parse(bytes) }
    }

    private static func parse(_ bytes: UnsafeBufferPointer<UInt8>) throws(JSONError) -> JSONValue {
        var parser = JSONParser(bytes)
        let value = try parser.value(depth: 0)
        try parser.end()
        if let refusal = parser.refusal { throw refusal }
        return value
    }
}
