// Makes access tokens (contract, section 6) with JWTKit. Who may have one is decided elsewhere.

import JWTKit
package import JourneyModel

/// Signs access tokens with one key. Safe to use from every thread.
package struct AccessTokenIssuer: Sendable {
    private let keys: JWTKeyCollection
    /// With `kid`, when others can look up the key by it.
    private let header: JWTHeader
    private let scope: TokenScope

    package init(key: SigningKey, scope: TokenScope) async {
        keys = await key.collection()
        header = JWTHeader(fields: key.keyID.map { ["kid": .string($0)] } ?? [:])
        self.scope = scope
    }

    /// A compact JWT for that driver, valid from `now` (seconds since 1970) for `ttlSeconds`. Without `sid` there
    /// is no sign-in session to revoke, and a verifier treats the token as another service's. Throws `claims` when
    /// no verifier would accept the driver, session or role, or when the token would never be valid.
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

    /// 1 to 128 characters, none of them a control character: what a verifier accepts as `sub`.
    package static func acceptsDriver(_ id: String) -> Bool {
        AccessClaims.isUsable(id, lengthMax: AccessClaims.idLengthMax)
    }

    /// 1 to 64 characters, none of them a control character: what a verifier accepts as `role`.
    private static func acceptsRole(_ role: String) -> Bool {
        AccessClaims.isUsable(role, lengthMax: AccessClaims.roleLengthMax)
    }

    /// 128 random bits: no two tokens share a `jti`, not even two of one second.
    private static func randomID() -> String {
        let digits = String(UInt128.random(in: 0 ... .max), radix: 16)
        return String(repeating: "0", count: max(0, 32 - digits.utf8.count)) + digits
    }
}
