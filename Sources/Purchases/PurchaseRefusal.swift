/// Why signed App Store data is not accepted. The reason is for logs and operators: a client only learns that it
/// was rejected, because the reason would help only a forger.
package enum PurchaseRefusal: String, Error, Hashable, Sendable, CaseIterable {
    /// Not a compact JWS, longer than the limit, or a payload that is not a JSON object.
    case malformed
    /// `alg` is not ES256, or there are extensions that must be understood (`crit`).
    case wrongAlgorithm = "wrong_algorithm"
    /// `x5c` is not exactly three DER certificates.
    case wrongChain = "wrong_chain"
    /// The third certificate is not, byte for byte, a pinned root.
    case untrustedRoot = "untrusted_root"
    /// The leaf or the intermediate lacks the extension by which Apple marks certificates for the App Store.
    case missingMarker = "missing_marker"
    /// A certificate that its issuer did not sign, was not allowed to sign, or whose key is not P-256.
    case wrongCertificate = "wrong_certificate"
    /// A certificate was not valid at `signedDate`.
    case expiredCertificate = "expired_certificate"
    /// Apple revoked the leaf certificate.
    case revokedCertificate = "revoked_certificate"
    case wrongSignature = "wrong_signature"
    /// `signedDate` is further ahead of this server's clock than `AppStoreVerifier.clockSkewSecondsMax`: one of the two
    /// clocks is wrong, so this is temporary.
    case signedInFuture = "signed_in_future"
    /// A payload member is missing, or has a type or value that Apple does not document.
    case wrongClaims = "wrong_claims"
    case wrongBundle = "wrong_bundle"
    /// A production notification whose `appAppleId` is not the configured one, or for which none is configured.
    case wrongApp = "wrong_app"
    /// An environment that this server does not accept, or that differs from the enclosing notification's.
    case wrongEnvironment = "wrong_environment"
    /// Renewal information about a subscription other than the transaction's.
    case otherSubscription = "other_subscription"

    /// True if Apple did not sign this; false if Apple did, but for another app, environment or time.
    package var isForgery: Bool {
        switch self {
        case .malformed, .wrongAlgorithm, .wrongChain, .untrustedRoot, .missingMarker, .wrongCertificate,
            .expiredCertificate, .revokedCertificate, .wrongSignature:
            true
        case .signedInFuture, .wrongClaims, .wrongBundle, .wrongApp, .wrongEnvironment, .otherSubscription: false
        }
    }
}
