// Parses the value of DATA_KEY, the key that encrypts tokens in the database.

import Foundation

enum DataKey {
    static let byteCount = 32

    /// Returns the 32 bytes that the text encodes, either in 64 hexadecimal digits or in base64. No text is valid in
    /// both encodings.
    static func bytes(_ text: String) -> [UInt8]? {
        let bytes = text.utf8.count == 2 * byteCount ? hexadecimal(text) : base64(text)
        return bytes?.count == byteCount ? bytes : nil
    }

    private static func hexadecimal(_ text: String) -> [UInt8]? {
        let digits = text.utf8.compactMap { $0 < 0x80 ? Character(Unicode.Scalar($0)).hexDigitValue : nil }
        guard digits.count == text.utf8.count else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    /// Decodes base64 or base64url (RFC 4648, sections 4 and 5), with or without padding.
    private static func base64(_ text: String) -> [UInt8]? {
        let plain = text.replacing("-", with: "+").replacing("_", with: "/").prefix { $0 != "=" }
        let padding = String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
        guard text.utf8.count == plain.utf8.count || text.utf8.count == plain.utf8.count + padding.utf8.count,
            text.hasSuffix("=") == (text.utf8.count > plain.utf8.count)
        else { return nil }
        return Data(base64Encoded: plain + padding).map { Array($0) }
    }
}
