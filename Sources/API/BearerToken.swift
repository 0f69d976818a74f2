// The Authorization field with the Bearer scheme (RFC 6750 section 2.1, RFC 9110 section 11.6.2).

import HTTP1

enum BearerToken {
    /// The token of the one Authorization field, or nil: absent, repeated, another scheme, or not a b64token.
    static func read(from fields: Fields) -> String? {
        let values = fields.values("Authorization")
        guard values.count == 1, let value = values.first else { return nil }
        let parts = value.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer", parts[1].utf8.allSatisfy(isTokenByte) else {
            return nil
        }
        return String(parts[1])
    }

    /// b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default:
            "-._~+/=".utf8.contains(byte)
        }
    }
}
