// A compact JWS (RFC 7515, section 7.1), split into its parts and not yet verified. The header is read by the one
// strict parser, and each part has only one accepted encoding, so that what is checked is what was signed. Does not
// know algorithms, keys or claims.

package import JourneyModel

package struct CompactJWS: Sendable {
    /// A JSON object.
    package let header: JSONValue
    /// The signed bytes; not empty, and not necessarily JSON.
    package let payload: [UInt8]
    package let signature: [UInt8]
    /// `header.payload` as sent (RFC 7515, section 5.1, step 8): the input of the signature.
    package let signingInput: [UInt8]

    /// Nil when `text` is longer than `bytesMax`, which is checked before any parsing, or is not a compact JWS.
    package init?(_ text: String, bytesMax: Int) {
        guard text.utf8.count <= bytesMax else { return nil }
        let parts = text.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, let headerBytes = Self.bytes(parts[0]), let payload = Self.bytes(parts[1]),
            let signature = Self.bytes(parts[2]), let header = try? JSONValue.parse(headerBytes),
            case .object = header
        else { return nil }
        self.header = header
        self.payload = payload
        self.signature = signature
        signingInput = Array("\(parts[0]).\(parts[1])".utf8)
    }

    /// Not empty, and canonically encoded: the unused bits of the last character are zero.
    static func bytes(_ part: Substring) -> [UInt8]? {
        guard let bytes = Base64URL.bytes(of: part), !bytes.isEmpty, Base64URL.text(of: bytes) == part else {
            return nil
        }
        return bytes
    }
}
