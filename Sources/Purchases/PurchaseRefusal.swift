/// The reason why signed App Store data was refused, for logs and operators. The client does not get the reason,
/// because it would help a forger. For `signedInFuture`, the response says that the client may try again.
package enum PurchaseRefusal: String, Error, Hashable, Sendable, CaseIterable {
    /// The data is too long or is not a compact JWS. Or its payload is not a JSON object with a valid `signedDate`.
    case malformed
    /// `alg` is not ES256, or the header has `crit`. `crit` lists extensions that a verifier must understand, and this
    /// server understands none.
    case wrongAlgorithm = "wrong_algorithm"
    /// `x5c` does not contain exactly three DER certificates, or one of them is longer than
    /// `CertificateChain.certificateBytesMax`.
    case wrongChain = "wrong_chain"
    /// The third certificate is not byte for byte equal to an accepted root.
    case untrustedRoot = "untrusted_root"
    /// The leaf or the intermediate lacks the extension by which Apple marks certificates for the App Store.
    case missingMarker = "missing_marker"
    /// A certificate is not signed by its issuer, or the issuer is not permitted to sign it, or the leaf's key is not
    /// P-256.
    case wrongCertificate = "wrong_certificate"
    /// A certificate was not valid at `signedDate`.
    case expiredCertificate = "expired_certificate"
    /// Apple revoked the leaf certificate.
    case revokedCertificate = "revoked_certificate"
    case wrongSignature = "wrong_signature"
    /// `signedDate` is later than this server's time plus `AppStoreVerifier.clockSkewSecondsMax`. Apple's clock or this
    /// server's clock is wrong. The same data may be accepted later.
    case signedInFuture = "signed_in_future"
    /// A payload member is missing, or has a type or value that Apple does not document.
    case wrongClaims = "wrong_claims"
    case wrongBundle = "wrong_bundle"
    /// The `appAppleId` of a notification is not the configured id of the app, or no id is configured. Also thrown if a
    /// required `appAppleId` is missing. Sandbox notifications are not checked.
    case wrongApp = "wrong_app"
    /// This server does not accept the environment. Or data that belongs together, such as a transaction and its
    /// renewal, names different environments.
    case wrongEnvironment = "wrong_environment"
    /// The renewal information is about a subscription other than the transaction's.
    case otherSubscription = "other_subscription"

    /// Whether the same data may be accepted later without a change of the server's settings.
    package var isTemporary: Bool { self == .signedInFuture }
}
