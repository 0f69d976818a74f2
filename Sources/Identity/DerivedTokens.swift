// What a sign-in with Apple and a refresh give out is derived from what was presented, so that a repeat whose first answer
// was lost gets the same again: in any process with the key, also after a restart, and without a token being stored. It
// refuses to know when a repeat is allowed; the stores' rules decide that (AccountRules.swift).

import Crypto
import Foundation
import Telemetry

/// HMAC-SHA256 under keys that are derived from the signing key (RFC 5869) and never stored, one for each purpose.
/// The next token cannot be computed from a token without the key.
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

    /// The refresh token that follows that one.
    func successor(of token: Secret<String>) -> RefreshToken {
        RefreshToken(bytes: code(token.reveal(), successorKey))
    }

    /// The first refresh token of the sign-in with that identity token.
    func refreshToken(of identity: AppleIdentity) -> RefreshToken {
        RefreshToken(bytes: code("refresh token:" + hex(identity.tokenDigest), signInKey))
    }

    /// The name of the sign-in session of that identity token; another one for each kind.
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
