// Access tokens with JWTKit. A verified token is cached until it expires.

import Foundation
import JWTKit
import Synchronization

struct Claims: JWTPayload {
    var sub: SubjectClaim
    var iss: IssuerClaim
    var exp: ExpirationClaim

    func verify(using algorithm: some JWTAlgorithm) throws {
        try exp.verifyNotExpired()
        guard iss.value == "dwell" else { throw JWTError.claimVerificationFailure(failedClaim: iss, reason: "issuer") }
    }
}

final class Tokens: Sendable {
    private let keys = JWTKeyCollection()
    private let verified = Mutex<[String: (driver: String, expiry: Date)]>([:])

    init(secret: String) async {
        await keys.add(hmac: HMACKey(from: secret), digestAlgorithm: .sha256)
    }

    func driver(of token: String) async -> String? {
        if let known = verified.withLock({ $0[token] }), known.expiry > Date() { return known.driver }
        guard let claims = try? await keys.verify(token, as: Claims.self) else { return nil }
        verified.withLock { verified in
            if verified.count >= 10_000 { verified.removeAll() }
            verified[token] = (claims.sub.value, claims.exp.value)
        }
        return claims.sub.value
    }
}
