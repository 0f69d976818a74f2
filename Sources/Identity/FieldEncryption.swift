// Encrypts values that are stored and read again but must not be readable from the database alone, with a key
// derived from DATA_KEY. Does not know where sealed bytes are stored.

import Crypto
import Foundation
package import Secrets

/// AES-GCM with a 256-bit key. Sealed: one byte of version, 12 of nonce, the ciphertext, 16 of tag.
package struct FieldEncryption: Sendable {
    private static let version: UInt8 = 1
    private let key: Secret<SymmetricKey>

    /// `dataKey`: the 32 bytes of `DATA_KEY`. A separate key is derived for each purpose (RFC 5869).
    package init(dataKey: Secret<[UInt8]>) {
        key = Secret(
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: dataKey.reveal()), info: Data("dwell apple refresh token v1".utf8),
                outputByteCount: 32))
    }

    /// Opens only with the same `owner`: useless in another's row. Output differs on every call (random nonce).
    package func seal(_ secret: Secret<String>, of owner: [UInt8]) -> [UInt8]? {
        // The nonce is random each time; 2^32 uses of one key are far away.
        let box = try? AES.GCM.seal(Data(secret.reveal().utf8), using: key.reveal(), authenticating: Data(owner))
        return box?.combined.map { [Self.version] + $0 }
    }

    /// Nil for bytes that this key did not seal for that owner.
    package func open(_ sealed: [UInt8], of owner: [UInt8]) -> Secret<String>? {
        guard sealed.first == Self.version, let box = try? AES.GCM.SealedBox(combined: Data(sealed.dropFirst())),
            let opened = try? AES.GCM.open(box, using: key.reveal(), authenticating: Data(owner))
        else { return nil }
        return String(validating: opened, as: UTF8.self).map { Secret($0) }
    }
}
