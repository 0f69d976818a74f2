// The tokens issued by a sign-in with Apple and by a refresh are derived from what was presented, so that a repeat
// whose first response was lost gets the same ones again: in any process with the key, also after a restart, and
// without storing a token. When a repeat is allowed is decided by the stores' rules (AccountRules.swift).

import Crypto
import Foundation
import Secrets

/// HMAC-SHA256 under keys derived from the signing key (RFC 5869) and never stored, one for each purpose. Without
/// the key, the next token cannot be computed from a token.
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

    /// The refresh token that follows `token`.
    func successor(of token: Secret<String>) -> RefreshToken {
        RefreshToken(bytes: code(token.reveal(), successorKey))
    }

    /// The first refresh token of the sign-in with that identity token.
    func refreshToken(of identity: AppleIdentity) -> RefreshToken {
        RefreshToken(bytes: code("refresh token:" + hex(identity.tokenDigest), signInKey))
    }

    /// The id of the sign-in session of that identity token; different for each kind.
    func sid(of identity: AppleIdentity, _ kind: SignInKind) -> String {
        RandomID.text(prefix: "sid_", bytes: code("\(kind.rawValue) session:" + hex(identity.tokenDigest), signInKey))
    }

    private func code(_ text: String, _ key: SymmetricKey) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: key))
    }

    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
