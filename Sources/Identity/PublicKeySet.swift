// The public half of the signing key as a key set (RFC 7517). Other services verify our tokens with it.

import Crypto
import Foundation
import JourneyModel
import Secrets

extension SigningKey {
    /// The body of `GET /.well-known/jwks.json`. For an HMAC key, which has no public half, the set is empty.
    package var publicKeySet: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.name("keys")
        json.beginArray()
        if case .ecdsa(_, let key) = material {
            let point = PublicPoint(key.reveal().publicKey)
            json.beginObject()
            for (name, value) in point.members { json.member(name, value) }
            json.member("use", "sig")
            json.member("alg", Algorithm.es256.rawValue)
            json.member("kid", point.thumbprint)
            json.endObject()
        }
        json.endArray()
        json.endObject()
        return json.bytes
    }

    /// `kid` in the headers of our tokens; nil for an HMAC key.
    var keyID: String? {
        guard case .ecdsa(_, let key) = material else { return nil }
        return PublicPoint(key.reveal().publicKey).thumbprint
    }
}

/// The members that every P-256 public key has (RFC 7518, section 6.2.1), in the order of RFC 7638, section 3.2.
private struct PublicPoint {
    let members: [(name: String, value: String)]

    init(_ key: P256.Signing.PublicKey) {
        // `x` and `y`, 32 bytes each.
        let point = key.rawRepresentation
        members = [
            ("crv", "P-256"), ("kty", "EC"), ("x", Base64URL.text(of: point.prefix(32))),
            ("y", Base64URL.text(of: point.suffix(32))),
        ]
    }

    /// The thumbprint of RFC 7638. It depends only on the key, so every process computes the same one.
    var thumbprint: String {
        var json = JSONWriter()
        json.beginObject()
        for (name, value) in members { json.member(name, value) }
        json.endObject()
        return Base64URL.text(of: Data(SHA256.hash(data: json.bytes)))
    }
}

extension JSONWriter {
    fileprivate mutating func member(_ name: String, _ value: String) {
        self.name(name)
        string(value)
    }
}
