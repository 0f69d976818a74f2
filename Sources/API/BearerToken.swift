// The Authorization field with the Bearer scheme (RFC 6750 section 2.1, RFC 9110 section 11.6.2).

package import HTTP1

package enum BearerToken {
    /// Returns the token of the Authorization field. Returns nil if the field is absent or repeated, has another
    /// scheme, or does not contain a b64token.
    package static func read(from fields: Fields) -> String? {
        guard fields.count(of: "Authorization") == 1, var value = fields.first("Authorization") else { return nil }
        return value.withUTF8(read)
    }

    /// Returns the bytes after the scheme Bearer, or nil if the value has another scheme. The form of the bytes is not
    /// checked, so callers must only compare all of the bytes with valid tokens.
    static func candidate(in value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        let scheme: StaticString = "bearer "
        let length = scheme.utf8CodeUnitCount
        guard value.count > length else { return nil }
        let isBearer = scheme.withUTF8Buffer { letters in
            for index in 0..<length where value[index] | 0x20 != letters[index] { return false }
            return true
        }
        return isBearer ? UnsafeRawBufferPointer(rebasing: value[length...]) : nil
    }

    /// Parses `credentials = auth-scheme 1*SP token68`. Works on bytes for speed, because every request of a phone has
    /// this field.
    private static func read(_ bytes: UnsafeBufferPointer<UInt8>) -> String? {
        var words = bytes.split(separator: UInt8(ascii: " ")).makeIterator()
        guard let scheme = words.next(), let token = words.next(), words.next() == nil,
            scheme.elementsEqual("bearer".utf8, by: { $0 | 0x20 == $1 }), token.allSatisfy(isTokenByte)
        else { return nil }
        return String(decoding: token, as: UTF8.self)
    }

    /// Returns whether the byte may be part of a b64token:
    ///
    /// b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "+"),
            UInt8(ascii: "/"), UInt8(ascii: "="):
            true
        default: false
        }
    }
}
