// Reads the keys of a published key set (RFC 7517) that can verify RS256, and ignores everything else in the set.
// AppleKeySet determines where the set comes from and how long it is valid.

import Crypto
import CryptoExtras
import Foundation
import JourneyModel

/// A public RSA key of at least 2048 bits.
struct RSAVerificationKey: Sendable {
    static let bitsMin = 2048
    /// The maximum key size in bits. It is limited, because the time to verify a signature grows with the square of the
    /// key size.
    static let bitsMax = 8192

    private let key: _RSA.Signing.PublicKey

    /// Creates a key from its modulus and exponent (big-endian bytes). Returns nil if they do not form a key of an
    /// accepted size.
    init?(modulus: [UInt8], exponent: [UInt8]) {
        guard modulus.count * 8 <= Self.bitsMax, (1...8).contains(exponent.count),
            let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent),
            (Self.bitsMin...Self.bitsMax).contains(key.keySizeInBits)
        else { return nil }
        self.key = key
    }

    /// Verifies with RSASSA-PKCS1-v1_5 (RFC 7518, section 3.3). The library names this padding `insecure` because
    /// it is insecure for encryption.
    func verifies(_ signature: [UInt8], of digest: SHA256.Digest) -> Bool {
        key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signature), for: digest, padding: .insecurePKCS1v1_5)
    }
}

enum AppleKeys {
    /// Maximum number of keys that are read. Apple publishes three or four.
    static let countMax = 64

    /// Returns the usable keys by `kid`. If several keys have the same `kid`, the first one counts. Returns nil if the
    /// text is not a key set or has no usable key, because an empty set must not replace known keys.
    static func parse(_ text: [UInt8]) -> [String: RSAVerificationKey]? {
        guard case .array(let members)? = (try? JSONValue.parse(text))?["keys"] else { return nil }
        var keys: [String: RSAVerificationKey] = [:]
        for member in members.prefix(countMax) {
            guard let (name, key) = key(member), keys[name] == nil else { continue }
            keys[name] = key
        }
        return keys.isEmpty ? nil : keys
    }

    /// Reads one key according to sections 4.1, 4.2, 4.4 and 4.5 of RFC 7517 and section 6.3.1 of RFC 7518. `use` and
    /// `alg` are optional. If present, they must permit verifying RS256.
    private static func key(_ member: JSONValue) -> (name: String, key: RSAVerificationKey)? {
        guard member["kty"]?.text == "RSA",
            let name = member["kid"]?.text, (1...SignedToken.keyNameBytesMax).contains(name.utf8.count),
            member["use"].map({ $0.text == "sig" }) ?? true, member["alg"].map({ $0.text == "RS256" }) ?? true,
            let modulus = member["n"]?.text.flatMap({ Base64URL.bytes(of: $0) }),
            let exponent = member["e"]?.text.flatMap({ Base64URL.bytes(of: $0) }),
            let key = RSAVerificationKey(modulus: modulus, exponent: exponent)
        else { return nil }
        return (name, key)
    }
}
