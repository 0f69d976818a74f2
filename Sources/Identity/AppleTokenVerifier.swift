// Verifies what Apple signed: form, algorithm, key, signature, claims, in that order. Not with JWTKit: its AppleIdentityToken
// traps on `"aud": []` (5.7.1), and a second JSON decoder is a second opinion about what was signed.

package struct AppleTokenVerifier: AppleTokenVerifying {
    private let clientIDs: [String]
    private let keys: AppleKeySet

    /// `clientIDs` as in `APPLE_CLIENT_IDS`; empty: every token is refused, and Apple is never asked.
    package init(clientIDs: [String], keys: AppleKeySet) {
        self.clientIDs = clientIDs
        self.keys = keys
    }

    package func identity(
        of token: String, rawNonce: String, atSecondsSince1970 now: Int64
    ) async throws(AppleTokenRefusal) -> AppleIdentity {
        try await claims(of: token, atSecondsSince1970: now, needsExpiry: true)
            .identity(rawNonce: rawNonce, tokenDigest: plainDigest(token))
    }

    /// Apple documents no `exp` for notices; one that is there counts.
    package func notice(
        of token: String, atSecondsSince1970 now: Int64
    ) async throws(AppleTokenRefusal) -> AppleServerNotification {
        try await claims(of: token, atSecondsSince1970: now, needsExpiry: false).notice()
    }

    private func claims(
        of text: String, atSecondsSince1970 now: Int64, needsExpiry: Bool
    ) async throws(AppleTokenRefusal) -> AppleClaims {
        let token = try SignedToken(text)
        guard !clientIDs.isEmpty else { throw .refused(.wrongAudience) }
        let key = try await keys.key(named: token.keyName)
        return try AppleClaims(
            try token.claims(signedBy: key), clientIDs: clientIDs, atSecondsSince1970: now, needsExpiry: needsExpiry)
    }
}
