// Header and signature of a JWS, stored beside the payload so that a fact can be verified again:
// `header.base64url(payload).base64url(signature)` is the JWS that Apple signed.

import Identity

package struct SignatureProof: Hashable, Sendable {
    /// base64url, as sent: the algorithm and three certificates.
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

    /// A total order; nil comes first. ECDSA is randomized: signing the same payload twice gives two signatures.
    static func isBefore(_ one: SignatureProof?, _ other: SignatureProof?) -> Bool {
        guard let one, let other else { return one == nil && other != nil }
        return one.header != other.header
            ? one.header < other.header : one.signature.lexicographicallyPrecedes(other.signature)
    }

    /// The compact JWS.
    package func token(payload: [UInt8]) -> String {
        header + "." + Base64URL.text(of: payload) + "." + Base64URL.text(of: signature)
    }
}
