// A JWS of the App Store: the `signedPayload` of a notification, a `signedTransactionInfo` or a `signedRenewalInfo`.
// The JWS is only parsed here. `AppStoreVerifier` verifies it.

internal import Caching
package import Crypto
import Foundation
package import Identity
package import JourneyModel
internal import Synchronization

package struct SignedPayload: Sendable {
    /// Maximum length of a JWS in bytes, checked before any parsing. A notification with a transaction and a renewal
    /// has about 20 kB, mostly certificates.
    package static let bytesMax = 65_536

    package let jws: CompactJWS
    /// The certificates of the header if the same header was accepted before; otherwise nil.
    private let knownCertificates: [[UInt8]]?
    /// The claims, as a JSON object.
    package let claims: PayloadReader
    /// The time when Apple signed the payload, by Apple's clock.
    package let signedDate: Moment

    var hasKnownHeader: Bool { knownCertificates != nil }

    /// The claims as the bytes that Apple signed.
    package var payload: [UInt8] { jws.payload }

    /// Parses the JWS and its payload, but does not verify the signature. Throws `malformed` for every error, even for
    /// an invalid `signedDate`, because an unverified payload with an error counts as a forgery.
    package init(_ text: String, headers: AcceptedHeaders? = nil) throws(PurchaseRefusal) {
        var known: AcceptedHeaders.Header?
        let jws = CompactJWS(text, bytesMax: Self.bytesMax) { header in
            known = headers?.find(header)
            return known?.json
        }
        guard let jws else { throw .malformed }
        self.jws = jws
        knownCertificates = known?.certificates
        claims = try PayloadReader(payload: jws.payload)
        do { signedDate = try claims.moment("signedDate") } catch { throw .malformed }
    }

    /// Returns the certificates in `x5c` of the header: DER, the leaf first. Throws `wrongAlgorithm` if `alg` is not
    /// ES256 or if the header has `crit`.
    ///
    /// Throws `wrongChain` if there are not exactly three certificates, or if one of them is not in canonical base64.
    package func certificates() throws(PurchaseRefusal) -> [[UInt8]] {
        if let knownCertificates { return knownCertificates }
        // The algorithm is checked before the key is known, because the key must not determine the algorithm (RFC 8725,
        // section 3.1).
        guard jws.header["alg"] == .string("ES256"), jws.header["crit"] == nil else { throw .wrongAlgorithm }
        guard let certificates = Self.certificates(in: jws.header) else { throw .wrongChain }
        return certificates
    }

    /// Returns the certificates of a stored header, which is in base64url. Returns nil if the header is not valid.
    static func certificates(inHeader header: String) -> [[UInt8]]? {
        guard let bytes = Base64URL.bytes(of: header), let json = try? JSONValue.parse(bytes) else { return nil }
        return certificates(in: json)
    }

    private static func certificates(in header: JSONValue) -> [[UInt8]]? {
        guard case .array(let elements) = header["x5c"], elements.count == CertificateChain.certificateCount else {
            return nil
        }
        let certificates = elements.compactMap { element -> [UInt8]? in
            guard case .string(let text) = element, let bytes = Data(base64Encoded: text), !bytes.isEmpty,
                bytes.base64EncodedString() == text
            else { return nil }
            return Array(bytes)
        }
        return certificates.count == elements.count ? certificates : nil
    }

    /// Returns whether `key` made the signature. The signature must have 64 bytes: `r` and then `s` (RFC 7518, section
    /// 3.4).
    package func isSigned(by key: P256.Signing.PublicKey) -> Bool {
        guard jws.signature.count == 64,
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: jws.signature)
        else { return false }
        return key.isValidSignature(signature, for: jws.signingInput)
    }
}

/// A cache of accepted JWS headers. A header is accepted if it names ES256 and has a valid certificate chain.
///
/// A notification has three headers of 5 kB. Without the cache, parsing them would cost as much as verifying the three
/// signatures. Apple uses few different headers, so a small cache is enough.
///
/// Even for a cached header, the certificates must have been valid at the `signedDate` of each payload.
package final class AcceptedHeaders: Sendable {
    struct Header: Sendable {
        var json: JSONValue
        var certificates: [[UInt8]]
    }

    /// Maximum number of cached headers. `CertificateChain` caches the same number of chains.
    private static let countMax = 32

    private let cache = Mutex(TwoGenerationCache<String, Header>(generationCountMax: countMax / 2))

    package init() {}

    func find(_ text: String) -> Header? {
        cache.withLock { $0.find(text) }
    }

    /// Adds a header. Callers must verify the signature first, so that clients cannot fill the cache with forged
    /// headers.
    func add(_ signed: SignedPayload, _ certificates: [[UInt8]]) {
        let header = Header(json: signed.jws.header, certificates: certificates)
        cache.withLock { cache in
            if cache.find(signed.jws.headerText) == nil { cache.insert(header, for: signed.jws.headerText) }
        }
    }
}
