// Signs access tokens (contract, section 6) with JWTKit. The callers decide which drivers get tokens.

import JWTKit
package import JourneyModel

/// A signer of access tokens with one key. Safe to use from every thread.
package struct AccessTokenIssuer: Sendable {
    private let keys: JWTKeyCollection
    /// The token header. It has `kid` if the key is published (ES256).
    private let header: JWTHeader
    private let scope: TokenScope

    package init(key: SigningKey, scope: TokenScope) async {
        keys = await key.collection()
        header = JWTHeader(fields: key.keyID.map { ["kid": .string($0)] } ?? [:])
        self.scope = scope
    }

    /// Returns a compact JWT for `driver`, valid from `now` (seconds since 1970) for `ttlSeconds`. If `sid` is nil, the
    /// token belongs to no sign-in session, so the end of a session never revokes it. Verifiers treat such a token like
    /// one from another service.
    ///
    /// Throws `claims` if a verifier would reject the driver's id, the `sid` or the role. Also throws `claims` if
    /// `ttlSeconds` is not positive, or if the expiry does not fit an Int64.
    package func mint(
        driver: DriverID, sid: String? = nil, role: String?, ttlSeconds: Int64, now: Int64
    ) async throws -> String {
        let (expiry, overflow) = now.addingReportingOverflow(ttlSeconds)
        guard !overflow, ttlSeconds > 0, Self.acceptsDriver(driver.rawValue), role.map(Self.acceptsRole) ?? true,
            sid.map(Self.acceptsDriver) ?? true
        else { throw TokenRefusal.claims }
        let claims = AccessClaims(
            sub: driver.rawValue, sid: sid, role: role, jti: Self.randomID(), iss: scope.issuer,
            aud: Audience(names: [scope.audience]), iat: Double(now), exp: Double(expiry))
        return try await keys.sign(claims, header: header)
    }

    /// Returns whether a verifier accepts the id as `sub`.
    package static func acceptsDriver(_ id: String) -> Bool {
        AccessClaims.isUsable(id, lengthMax: AccessClaims.idLengthMax)
    }

    private static func acceptsRole(_ role: String) -> Bool {
        AccessClaims.isUsable(role, lengthMax: AccessClaims.roleLengthMax)
    }

    /// Returns a value for `jti`: 128 random bits in hexadecimal. Tokens that are issued in the same second therefore
    /// differ.
    private static func randomID() -> String {
        let digits = String(UInt128.random(in: 0 ... .max), radix: 16)
        return String(repeating: "0", count: max(0, 32 - digits.utf8.count)) + digits
    }
}
