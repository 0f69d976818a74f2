// The claims of an access token (contract, section 6) and the rules for accepting them. JWTKit only decodes the claims.
// AccessTokenVerifier verifies signatures.

import Foundation
import JWTKit
import JourneyModel

/// The claims of RFC 7519, section 4.1, and two of our own (`sid`, `role`). All properties are optional, so that a
/// missing claim can be distinguished from a token that is not JSON. `verified(...)` checks that the required claims
/// are present.
struct AccessClaims: JWTPayload {
    var sub: String?
    var sid: String?
    var role: String?
    var jti: String?
    var iss: String?
    var aud: Audience?
    /// The time of issue in seconds since 1970. `iat`, `nbf` and `exp` may have a fraction (NumericDate: RFC 7519,
    /// section 2).
    var iat: Double?
    var nbf: Double?
    var exp: Double?

    /// Does nothing. `verified(...)` checks the times, with a clock that is passed in.
    func verify(using algorithm: some JWTAlgorithm) {}
}

/// `aud` (RFC 7519, section 4.1.3): one string or an array of strings. JWTKit's AudienceClaim is not used, because it
/// traps on an empty array (JWTKit 5.7.1). No token may crash the process, even if its signature is valid.
struct Audience: Codable, Sendable {
    var names: [String]

    init(names: [String]) {
        self.names = names
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let name = try? container.decode(String.self) {
            names = [name]
        } else {
            names = try container.decode([String].self)
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if names.count == 1 {
            try container.encode(names[0])
        } else {
            try container.encode(names)
        }
    }
}

/// The issuer and audience that every token must name.
package struct TokenScope: Hashable, Sendable {
    package var issuer: String
    package var audience: String

    package init(issuer: String, audience: String) {
        self.issuer = issuer
        self.audience = audience
    }
}

extension AccessClaims {
    /// How many seconds `iat` and `nbf` may be in the future, because the clock of another service may be ahead of
    /// ours. Without this tolerance, a fresh token of that service would be rejected, and the app would sign the driver
    /// out.
    ///
    /// `exp` has no tolerance, because the issuer chose the exact second of expiry.
    static let aheadSecondsMax = 60.0

    /// Maximum length of `sub` and `sid`, in Unicode scalars (contract, section 3: ids have 1 to 128 characters).
    static let idLengthMax = 128
    static let roleLengthMax = 64

    /// Checks all claims at the time `now`, and throws if a claim is not valid. Returns the caller that the token
    /// identifies, with the token's `iat` and `exp`. A token is accepted until `pastExpirySeconds` after its `exp`.
    func verified(
        in scope: TokenScope, atSecondsSince1970 now: Int64, pastExpirySeconds: Int64 = 0
    ) throws(TokenRefusal) -> VerifiedToken {
        guard let iss, let aud, let iat, let exp, iat.isFinite, exp.isFinite else { throw .claims }
        guard iss == scope.issuer else { throw .wrongIssuer }
        guard aud.names.contains(scope.audience) else { throw .wrongAudience }
        guard Double(now) < exp + Double(pastExpirySeconds) else { throw .expired }
        guard iat <= Double(now) + Self.aheadSecondsMax else { throw .notYetValid }
        if let nbf, !(nbf <= Double(now) + Self.aheadSecondsMax) { throw .notYetValid }
        guard let sub, Self.isUsable(sub, lengthMax: Self.idLengthMax) else { throw .claims }
        if let sid, !Self.isUsable(sid, lengthMax: Self.idLengthMax) { throw .claims }
        if let role, !Self.isUsable(role, lengthMax: Self.roleLengthMax) { throw .claims }
        return VerifiedToken(
            caller: Caller(driver: DriverID(sub), signInSession: sid, role: role), issuedAt: iat, expiry: exp)
    }

    /// Returns whether the text has 1 to `lengthMax` Unicode scalars, and no control character (Cc), line separator or
    /// paragraph separator. These characters are rejected because ids are shown in logs and sent to analytics.
    ///
    /// The length is counted in scalars, because one visible character may consist of any number of scalars.
    static func isUsable(_ text: String, lengthMax: Int) -> Bool {
        var length = 0
        for scalar in text.unicodeScalars {
            length += 1
            guard length <= lengthMax else { return false }
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator: return false
            default: continue
            }
        }
        return length > 0
    }
}
