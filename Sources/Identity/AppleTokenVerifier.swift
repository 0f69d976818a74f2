// Verifies tokens signed by Apple. The checks are made in this order: form, algorithm, key, signature, claims.
//
// JWTKit is not used, for two reasons:
// - JWTKit's AppleIdentityToken (version 5.7.1) crashes the process on `"aud": []`.
// - JWTKit's own JSON decoder may read the signed bytes differently from the server's strict parser.

package struct AppleTokenVerifier: AppleTokenVerifying {
    private let clientIDs: [String]
    private let keys: AppleKeySet

    /// `clientIDs` are the ids in `APPLE_CLIENT_IDS`. If there are none, every token is rejected, and Apple is never
    /// called.
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

    /// Verifies a notification. It may lack `exp`, because Apple documents no `exp` for notifications. If `exp` is
    /// present, it is checked.
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
