// The one key that signs and verifies access tokens. Only the key determines the algorithm; the token's header does not
// (RFC 8725, section 3.1).

import Crypto
import Foundation
import JWTKit
package import Secrets

/// A key for HS256 or ES256. Only its algorithm is shown in logs and dumps.
package struct SigningKey: Sendable {
    /// JWS algorithm names (RFC 7518, section 3.1).
    package enum Algorithm: String, Sendable {
        case hs256 = "HS256"
        case es256 = "ES256"
    }

    enum Material: Sendable {
        case hmac(Secret<SymmetricKey>)
        /// The same key twice: in JWTKit's type and in swift-crypto's type.
        case ecdsa(Secret<ES256PrivateKey>, Secret<P256.Signing.PrivateKey>)
    }

    /// Minimum length of a secret: HMAC with SHA-256 requires a key at least as long as the hash (RFC 7518, section
    /// 3.2).
    package static let secretBytesMin = 32

    package let algorithm: Algorithm
    let material: Material

    /// Makes an HS256 key from the text's bytes in UTF-8. Throws `secretTooShort` if there are fewer than
    /// `secretBytesMin` bytes.
    package init(secret: Secret<String>) throws(SigningKeyError) {
        let text = secret.reveal()
        guard text.utf8.count >= Self.secretBytesMin else { throw .secretTooShort }
        algorithm = .hs256
        material = .hmac(Secret(SymmetricKey(data: Array(text.utf8))))
    }

    /// Makes an ES256 key from a P-256 private key in PEM (PKCS #8 or SEC 1). Throws `notAPrivateKey` for anything
    /// else.
    package init(privateKeyPEM: Secret<String>) throws(SigningKeyError) {
        do {
            let key = try P256.Signing.PrivateKey(pemRepresentation: privateKeyPEM.reveal())
            material = .ecdsa(Secret(try ES256PrivateKey(backing: key)), Secret(key))
            algorithm = .es256
        } catch {
            throw .notAPrivateKey
        }
    }

    /// Returns a JWTKit collection that contains only this key. The key has no id in the collection, so JWTKit uses it
    /// for every token, whatever `kid` the token names.
    func collection() async -> JWTKeyCollection {
        switch material {
        case .hmac(let key):
            await JWTKeyCollection().add(hmac: HMACKey(key: key.reveal()), digestAlgorithm: .sha256)
        case .ecdsa(let key, _):
            await JWTKeyCollection().add(ecdsa: key.reveal())
        }
    }

    var check: SignatureCheck {
        switch material {
        case .hmac(let key): .hmac(key)
        case .ecdsa(_, let key): .ecdsa(key.reveal().publicKey)
        }
    }

    /// The secret from which keys for other purposes are derived. As sensitive as the key itself.
    var secretBytes: Secret<SymmetricKey> {
        switch material {
        case .hmac(let key): key
        case .ecdsa(_, let key): Secret(SymmetricKey(data: key.reveal().rawRepresentation))
        }
    }
}

extension SigningKey: CustomStringConvertible {
    package var description: String { "SigningKey(\(algorithm.rawValue))" }
}

/// Checks signatures synchronously (RFC 7518, sections 3.2 and 3.4).
enum SignatureCheck: Sendable {
    case hmac(Secret<SymmetricKey>)
    case ecdsa(P256.Signing.PublicKey)

    func isValid(_ signature: some DataProtocol, of content: some DataProtocol) -> Bool {
        switch self {
        case .hmac(let key):
            return HMAC<SHA256>.isValidAuthenticationCode(
                Data(signature), authenticating: content, using: key.reveal())
        case .ecdsa(let key):
            guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValidSignature(signature, for: content)
        }
    }
}

/// The reason why a key could not be made or read. The descriptions may contain file names, but never the content of a
/// file.
package enum SigningKeyError: Error, Hashable, Sendable, CustomStringConvertible {
    case secretTooShort
    case notAPrivateKey
    /// The file or folder cannot be used; `reason` is the system's error text, or says what is wrong with the file.
    case file(path: String, reason: String)
    /// The key file is accessible to its group or to others.
    case readableByOthers(path: String)

    package var description: String {
        switch self {
        case .secretTooShort: "a secret of at least \(SigningKey.secretBytesMin) bytes is needed"
        case .notAPrivateKey: "not a P-256 private key in PEM form"
        case .file(let path, let reason): "\(path): \(reason)"
        case .readableByOthers(let path): "\(path): readable by others; restrict it to its owner (chmod 600)"
        }
    }
}
