// The header and signature of a JWS. They are stored with the payload so that a fact can be verified again:
// `header.base64url(payload).base64url(signature)` is the JWS that Apple signed.

import Identity

package struct SignatureProof: Hashable, Sendable {
    /// The JWS header with the algorithm and the three certificates, in base64url as sent.
    package var header: String
    package var signature: [UInt8]

    package init(header: String, signature: [UInt8]) {
        self.header = header
        self.signature = signature
    }

    init(_ jws: CompactJWS) {
        header = jws.headerText
        signature = jws.signature
    }

    /// Returns whether `one` comes before `other` in a total order, in which nil comes first. Two proofs of the same
    /// payload can differ, because ECDSA signatures are randomized.
    static func isBefore(_ one: SignatureProof?, _ other: SignatureProof?) -> Bool {
        guard let one, let other else { return one == nil && other != nil }
        return one.header != other.header
            ? one.header < other.header : one.signature.lexicographicallyPrecedes(other.signature)
    }

    /// Returns the compact JWS.
    package func token(payload: [UInt8]) -> String {
        header + "." + Base64URL.text(of: payload) + "." + Base64URL.text(of: signature)
    }
}
