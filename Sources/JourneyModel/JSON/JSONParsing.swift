// The JSON entry points that other modules call.

extension JSONValue {
    /// Reads one JSON text. Only white space may be before and after it; a byte order mark is rejected.
    ///
    /// Throws if the text does not follow the grammar of RFC 8259. Also throws if the text has one of the following,
    /// because two parsers could read such a text differently or fail to read it:
    ///
    /// - duplicate member names in an object
    /// - invalid UTF-8
    /// - escapes of half a surrogate pair
    /// - arrays and objects nested more than 64 deep
    /// - numbers of more than 64 characters
    public static func parse(_ text: [UInt8]) throws(JSONError) -> JSONValue {
        try text.withUnsafeBufferPointer { bytes throws(JSONError) in try parse(bytes) }
    }

    /// Reads one JSON text by the same rules as `parse(_ text: [UInt8])`. Does not keep `text` after the call.
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
