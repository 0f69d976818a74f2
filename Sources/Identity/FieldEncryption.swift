// Encrypts stored values with a key derived from DATA_KEY, so that a copy of the database alone does not reveal these
// values.

import Crypto
import Foundation
package import Secrets

/// AES-GCM with a 256-bit key. Sealed bytes are: version (1 byte), nonce (12), ciphertext, tag (16).
package struct FieldEncryption: Sendable {
    private static let version: UInt8 = 1
    private let key: Secret<SymmetricKey>

    /// `dataKey`: the 32 bytes of `DATA_KEY`. The key for Apple's refresh tokens is derived from it (RFC 5869).
    package init(dataKey: Secret<[UInt8]>) {
        key = Secret(
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: dataKey.reveal()), info: Data("dwell apple refresh token v1".utf8),
                outputByteCount: 32))
    }

    /// Returns sealed bytes. They can be opened only with the same `owner`, so they are useless in another owner's row.
    /// The nonce is random, so the result differs on every call.
    package func seal(_ secret: Secret<String>, of owner: [UInt8]) -> [UInt8]? {
        // With random nonces, one key is safe for up to 2^32 encryptions. The server makes far fewer.
        let box = try? AES.GCM.seal(Data(secret.reveal().utf8), using: key.reveal(), authenticating: Data(owner))
        return box?.combined.map { [Self.version] + $0 }
    }

    /// Returns nil for bytes that were not sealed with this key for that owner.
    package func open(_ sealed: [UInt8], of owner: [UInt8]) -> Secret<String>? {
        guard sealed.first == Self.version, let box = try? AES.GCM.SealedBox(combined: Data(sealed.dropFirst())),
            let opened = try? AES.GCM.open(box, using: key.reveal(), authenticating: Data(owner))
        else { return nil }
        return String(validating: opened, as: UTF8.self).map { Secret($0) }
    }
}
