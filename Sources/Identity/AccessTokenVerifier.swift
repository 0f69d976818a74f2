// Fills the TokenVerifier port with JWTKit. A signature costs tens of microseconds and a hop to JWTKit's actor, so a
// token that was verified once is remembered until it expires; whether its sign-in session still lives is asked every
// time. It refuses to know routes and answers.

import Foundation
import JWTKit
package import JourneyModel

/// The port by which the verifier asks whether a sign-in session may still be used.
package protocol SignInSessions: Sendable {
    /// False for a session that is unknown, revoked, another driver's, or whose driver is deleted. Asked for every
    /// request with a `sid`, so it must answer from memory or nearly so.
    func isLive(_ sid: String, of driver: DriverID) async -> Bool
}

/// Verifies access tokens with one key. Safe to use from every thread.
package final class AccessTokenVerifier: TokenVerifier {
    /// A token of ours has under 700 bytes; the rest is for the claims that another service adds. Checked before
    /// anything is parsed.
    package static let tokenBytesMax = 4096

    private let keys: JWTKeyCollection
    private let algorithm: SigningKey.Algorithm
    private let scope: TokenScope
    private let trustsExternal: Bool
    private let signInSessions: (any SignInSessions)?
    private let remembered: VerifiedTokens

    /// `signInSessions` nil: every `sid` is unknown. `trustExternal` false refuses tokens without one
    /// (`JWT_TRUST_EXTERNAL`).
    package init(
        key: SigningKey, scope: TokenScope, trustExternal: Bool, signInSessions: (any SignInSessions)?,
        rememberedMax: Int = 65_536
    ) async {
        keys = await key.collection()
        algorithm = key.algorithm
        self.scope = scope
        self.trustsExternal = trustExternal
        self.signInSessions = signInSessions
        remembered = VerifiedTokens(countMax: rememberedMax)
    }

    package func verify(_ token: String, atSecondsSince1970 now: Int64) async throws(TokenRefusal) -> Caller {
        guard token.utf8.count <= Self.tokenBytesMax else { throw .malformed }
        let digest = TokenDigest(of: token)
        if let known = remembered.find(digest) {
            guard Double(now) < known.expiry else {
                remembered.forget(digest)
                throw .expired
            }
            return try await admitted(known.caller)
        }
        let (caller, expiry) = try await claims(of: token).caller(in: scope, atSecondsSince1970: now)
        let admitted = try await admitted(caller)
        remembered.remember(digest, VerifiedToken(caller: caller, expiry: expiry))
        return admitted
    }

    /// The part of the judgement that may change while a token is good, and so is not remembered.
    private func admitted(_ caller: Caller) async throws(TokenRefusal) -> Caller {
        guard let sid = caller.signInSession else {
            guard trustsExternal else { throw .external }
            return caller
        }
        guard let signInSessions, await signInSessions.isLive(sid, of: caller.driver) else { throw .revoked }
        return caller
    }

    /// The claims, once form, algorithm and signature are in order, in that order.
    private func claims(of token: String) async throws(TokenRefusal) -> AccessClaims {
        guard Self.isCompactForm(token) else { throw .malformed }
        let bytes = Array(token.utf8)
        guard let header = try? DefaultJWTParser().parse(bytes, as: AnyClaims.self).header else { throw .malformed }
        guard header.alg == algorithm.rawValue else { throw .wrongAlgorithm }
        // RFC 7515, section 4.1.11: extensions that we do not understand, and we understand none.
        guard header.fields["crit"] == nil else { throw .malformed }
        do {
            return try await keys.verify(bytes, as: AccessClaims.self)
        } catch let error as JWTError where error.errorType == .malformedToken {
            // The signature was good and the JSON is JSON: a claim has the wrong type.
            throw .claims
        } catch {
            throw .wrongSignature
        }
    }

    /// Three parts in base64url without padding (RFC 7515, section 7.1), none of them empty. Foundation's decoder is
    /// more generous, and JWTKit takes what it cannot decode for nothing.
    static func isCompactForm(_ token: String) -> Bool {
        var dots = 0
        var partLength = 0
        for byte in token.utf8 {
            switch byte {
            case UInt8(ascii: "."):
                guard partLength > 0, dots < 2 else { return false }
                dots += 1
                partLength = 0
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                partLength += 1
            default:
                return false
            }
        }
        return dots == 2 && partLength > 0
    }

    /// Any JSON object: only the header is wanted, before there is a reason to believe the payload.
    private struct AnyClaims: JWTPayload {
        func verify(using algorithm: some JWTAlgorithm) {}
    }
}
