// Parses and makes a compact JWS (RFC 7515, section 7.1), but does not verify signatures. The header is parsed by the
// same strict parser as all other JSON. Each part must have the canonical encoding, so that no two texts decode to the
// same JWS.

import Foundation
package import JourneyModel
import Secrets

package struct CompactJWS: Sendable {
    /// A JSON object.
    package let header: JSONValue
    /// The header in base64url, as sent.
    package let headerText: String
    /// The payload's bytes; not empty, and not necessarily JSON.
    package let payload: [UInt8]
    package let signature: [UInt8]
    /// The input of the signature: `header.payload` as sent (RFC 7515, section 5.1, step 8).
    package let signingInput: [UInt8]

    /// Returns nil if `text` is longer than `bytesMax` or is not a compact JWS. The length is checked before any
    /// parsing.
    ///
    /// - Parameter knownHeader: gets a header in base64url. Returns its JSON if this header was parsed before. If it
    ///   returns nil, the initializer parses the header.
    package init?(_ text: String, bytesMax: Int, knownHeader: (String) -> JSONValue? = { _ in nil }) {
        guard text.utf8.count <= bytesMax else { return nil }
        var text = text
        let parts = text.withUTF8 { text -> Parts? in
            guard let first = text.firstIndex(of: Self.dot), let last = text.lastIndex(of: Self.dot), first < last,
                // A third dot would be in the payload. Decoding would fail, because a dot is not in the alphabet.
                let payload = Self.bytes(UnsafeBufferPointer(rebasing: text[(first + 1)..<last])),
                let signature = Self.bytes(UnsafeBufferPointer(rebasing: text[(last + 1)...]))
            else { return nil }
            let header = UnsafeBufferPointer(rebasing: text[..<first])
            let headerText = String(decoding: header, as: UTF8.self)
            var json = knownHeader(headerText)
            if json == nil {
                guard let bytes = Self.bytes(header) else { return nil }
                json = try? JSONValue.parse(bytes)
            }
            guard let json, case .object = json else { return nil }
            return Parts(
                header: json, headerText: headerText, payload: payload, signature: signature,
                signingInput: Array(text[..<last]))
        }
        guard let parts else { return nil }
        header = parts.header
        headerText = parts.headerText
        payload = parts.payload
        signature = parts.signature
        signingInput = parts.signingInput
    }

    private struct Parts {
        var header: JSONValue
        var headerText: String
        var payload: [UInt8]
        var signature: [UInt8]
        var signingInput: [UInt8]
    }

    private static let dot = UInt8(ascii: ".")

    /// Returns nil if the part is empty or is not canonical base64url.
    private static func bytes(_ part: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        guard let bytes = Base64URL.bytes(of: part, isCanonical: true), !bytes.isEmpty else { return nil }
        return bytes
    }

    static func bytes(_ part: Substring) -> [UInt8]? {
        guard let bytes = Base64URL.bytes(of: part, isCanonical: true), !bytes.isEmpty else { return nil }
        return bytes
    }
}

extension CompactJWS {
    /// Makes a compact JWS whose payload is the JSON object `claims`. `sign` gets the input of the signature,
    /// `header.payload`.
    static func token(
        header: [(String, JSONValue)], claims: [(String, JSONValue)], signedBy sign: (Data) throws -> Data
    ) throws -> Secret<String> {
        let signed = "\(Base64URL.text(of: object(header))).\(Base64URL.text(of: object(claims)))"
        return Secret("\(signed).\(Base64URL.text(of: try sign(Data(signed.utf8))))")
    }

    private static func object(_ members: [(String, JSONValue)]) -> [UInt8] {
        var writer = JSONWriter()
        writer.value(.object(members.map { JSONMember($0.0, $0.1) }))
        return writer.bytes
    }
}
