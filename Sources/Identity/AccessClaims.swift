// What an access token says (contract, section 6) and which of it is believed. Decoding is JWTKit's; the rules are
// here. It refuses to know how a signature is checked.

import Foundation
import JWTKit
import JourneyModel

/// The claims of RFC 7519, section 4.1, and two of our own (`sid`, `role`). All optional, so that a missing one is
/// told from a token that is no JSON at all; the rules are in `verified(...)`.
struct AccessClaims: JWTPayload {
    var sub: String?
    var sid: String?
    var role: String?
    var jti: String?
    var iss: String?
    var aud: Audience?
    /// NumericDates may have a fraction (RFC 7519, section 2).
    var iat: Double?
    var nbf: Double?
    var exp: Double?

    /// Times are judged in `verified(...)`, against a clock that is told.
    func verify(using algorithm: some JWTAlgorithm) {}
}

/// `aud` (RFC 7519, section 4.1.3): one string or an array of them. Not JWTKit's AudienceClaim, which traps on an empty
/// array (5.7.1): no token may end the process, however well it is signed.
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

/// What every token must name.
package struct TokenScope: Hashable, Sendable {
    package var issuer: String
    package var audience: String

    package init(issuer: String, audience: String) {
        self.issuer = issuer
        self.audience = audience
    }
}

extension AccessClaims {
    /// Another service's clock may be ahead of ours by this much: refusing its fresh token would sign a driver out.
    /// There is none for `exp`; a token is good for an hour, and the one who made it chose that second.
    static let aheadSecondsMax = 60.0

    /// Of `sub` and `sid`, in characters (contract, section 3: ids are 1...128).
    static let idLengthMax = 128
    static let roleLengthMax = 64

    /// Who the token is about, when every claim is in order at that time. `pastExpirySeconds`: how long after its
    /// `exp` it is taken all the same.
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

    /// Characters are Unicode scalars here: what a person sees as one may be any number of them. Controls (Cc) and
    /// the line and paragraph separators are refused: ids are shown in logs and sent to analytics.
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
