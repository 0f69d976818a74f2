// Derives refresh tokens instead of choosing them at random. A client that lost a response can therefore repeat its
// request, and gets the same refresh token again. The rules in AccountRules.swift decide when a repeat is allowed.
//
// A sign-in with Apple derives the refresh token from the identity token. A refresh derives it from the previous
// refresh token. Every process with the signing key derives the same token, so no token has to be stored.
//
// The first token after a sign-in with a one-time code is random. Such a sign-in cannot be repeated, because a code is
// accepted only once.

import Crypto
import Foundation
import JourneyModel
import Secrets

/// HMAC-SHA256 with one key for each purpose. The keys are derived from the signing key (RFC 5869) and never stored. A
/// token's successor cannot be computed without the signing key.
package struct DerivedTokens: Sendable {
    private let successorKey: SymmetricKey
    private let signInKey: SymmetricKey

    package init(signingKey: SigningKey) {
        func key(_ purpose: String) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: signingKey.secretBytes.reveal(), info: Data("dwell \(purpose) v1".utf8),
                outputByteCount: 32)
        }
        successorKey = key("refresh token successor")
        signInKey = key("sign-in with Apple")
    }

    func successor(of token: Secret<String>) -> RefreshToken {
        RefreshToken(bytes: code(token.reveal(), successorKey))
    }

    func refreshToken(of identity: AppleIdentity) -> RefreshToken {
        RefreshToken(bytes: code("refresh token:" + identity.tokenDigest.hexadecimal, signInKey))
    }

    /// Returns the id of the sign-in session for that identity token. Each `kind` gives another id.
    func sid(of identity: AppleIdentity, _ kind: SignInKind) -> String {
        RandomID.text(
            prefix: "sid_", bytes: code("\(kind.rawValue) session:" + identity.tokenDigest.hexadecimal, signInKey))
    }

    private func code(_ text: String, _ key: SymmetricKey) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: key))
    }
}
