// Implements the TokenVerifier port. JWTKit only parses the tokens.
//
// A signature check takes tens of microseconds, so a verified token is cached until it expires. The token's sign-in
// session may end before that, so every request also checks that the session is live.

import Foundation
import JWTKit
import JourneyModel

/// The port by which the verifier checks the sign-in session of a token.
package protocol SignInSessions: Sendable {
    /// Returns whether a token of `caller`, issued at `issuedAt` (`iat`, seconds since 1970), may be used. Reads only
    /// memory, because it may be called for every request. On a cache miss, returns a closure that reads the store.
    ///
    /// A token with `sid` may be used while its sign-in session is live and belongs to the driver. A token without
    /// `sid` may be used if its driver was not deleted after the token was issued.
    func judge(_ caller: Caller, issuedAt: Double) -> SignInVerdict

    /// The revocation epoch: a number of 0 or more, which revocations increase. If this property is nil, the verifier
    /// calls `judge` for every token at every request.
    ///
    /// A revocation increments the epoch. Every call of `judge` after the increment takes the revocation into account.
    /// An admitted token therefore needs no second check while the epoch stays the same.
    var revocationEpoch: Int? { get }
}

/// The result of looking up a token's sign-in session in memory, without reading the store.
package enum SignInVerdict: Sendable {
    case admitted
    case refused(TokenRefusal)
    /// A cache miss. The closure reads the store. It throws `revoked` if the token may not be used, and `undecided` if
    /// the store cannot be read.
    case needsLookup(@Sendable () async throws(TokenRefusal) -> Void)
}

extension SignInSessions {
    package var revocationEpoch: Int? { nil }

    /// Judges the token, and throws if it may not be used. On a cache miss, waits until the store is read.
    package func admit(_ caller: Caller, issuedAt: Double) async throws(TokenRefusal) {
        switch judge(caller, issuedAt: issuedAt) {
        case .admitted: return
        case .refused(let refusal): throw refusal
        case .needsLookup(let lookUp): try await lookUp()
        }
    }
}

/// A verifier of access tokens with one key. Safe to use from every thread.
package final class AccessTokenVerifier: TokenVerifier {
    /// Maximum length of a token, checked before any parsing. Our tokens have fewer than 700 bytes. The limit is higher
    /// because another service may add claims to its tokens.
    package static let tokenBytesMax = 4096

    /// JWTKit's key collection is not used here, because it is an actor, and each call to it costs two thread switches.
    private let signature: SignatureCheck
    private let algorithm: SigningKey.Algorithm
    private let scope: TokenScope
    private let trustsExternal: Bool
    private let signInSessions: (any SignInSessions)?
    private let remembered: VerifiedTokenCache

    /// - Parameters:
    ///   - trustExternal: whether tokens without a `sid` are accepted (`JWT_TRUST_EXTERNAL`).
    ///   - signInSessions: checks sign-in sessions and deletions. If it is nil, every token with a `sid` is rejected,
    ///     and deletions are not checked for tokens without a `sid`.
    package init(
        key: SigningKey, scope: TokenScope, trustExternal: Bool, signInSessions: (any SignInSessions)?,
        rememberedMax: Int = 65_536
    ) {
        signature = key.check
        algorithm = key.algorithm
        self.scope = scope
        self.trustsExternal = trustExternal
        self.signInSessions = signInSessions
        remembered = VerifiedTokenCache(countMax: rememberedMax)
    }

    package func judge(_ token: UnsafeRawBufferPointer, atSecondsSince1970 now: Int64) -> TokenVerdict {
        // A token over the length limit cannot be in the cache. It is refused without computing its digest.
        guard token.count <= Self.tokenBytesMax else {
            return .needsLookup { () async throws(TokenRefusal) in throw .malformed }
        }
        let digest = TokenDigest(of: token)
        if let known = remembered.find(digest) { return judge(known, digest, now) }
        let text = String(decoding: token, as: UTF8.self)
        return .needsLookup { [self] () async throws(TokenRefusal) in
            let verified = try claims(of: text).verified(in: scope, atSecondsSince1970: now)
            // The epoch is read before the session is checked. If the session is revoked during the check, the token is
            // remembered with the earlier epoch, and the next request checks it again.
            let revocationEpoch = signInSessions?.revocationEpoch
            let caller = try await admitted(verified)
            remembered.remember(digest, verified)
            if let revocationEpoch { remembered.find(digest)?.isAdmitted(at: revocationEpoch) }
            return caller
        }
    }

    /// Judges a token whose signature was verified before: checks only the expiry and the sign-in session.
    private func judge(_ known: RememberedToken, _ digest: TokenDigest, _ now: Int64) -> TokenVerdict {
        guard Double(now) < known.token.expiry else {
            remembered.forget(digest)
            return .refused(.expired)
        }
        let caller = known.token.caller
        let revocationEpoch = signInSessions?.revocationEpoch
        if let revocationEpoch, known.wasAdmitted(at: revocationEpoch) { return .known(caller) }
        if let refusal = refusal(of: known.token) { return .refused(refusal) }
        switch signInSessions?.judge(caller, issuedAt: known.token.issuedAt) ?? .admitted {
        case .admitted:
            if let revocationEpoch { known.isAdmitted(at: revocationEpoch) }
            return .known(caller)
        case .refused(let refusal): return .refused(refusal)
        case .needsLookup(let lookUp):
            return .needsLookup { () async throws(TokenRefusal) in
                try await lookUp()
                return caller
            }
        }
    }

    /// Verifies an access token that a client without a refresh token exchanges for a new one (`SingleToken`). The
    /// token may have expired at most `pastExpirySeconds` ago, but its sign-in session must be live. Throws `external`
    /// for a token without `sid`.
    package func verifyForRenewal(
        _ token: String, atSecondsSince1970 now: Int64, pastExpirySeconds: Int64
    ) async throws(TokenRefusal) -> Caller {
        guard token.utf8.count <= Self.tokenBytesMax else { throw .malformed }
        let verified = try claims(of: token).verified(
            in: scope, atSecondsSince1970: now, pastExpirySeconds: pastExpirySeconds)
        guard verified.caller.signInSession != nil else { throw .external }
        return try await admitted(verified)
    }

    /// Throws if a token with a valid signature and valid claims may not be used, for example because its sign-in
    /// session has ended. The result is valid only until the revocation epoch changes.
    private func admitted(_ token: VerifiedToken) async throws(TokenRefusal) -> Caller {
        if let refusal = refusal(of: token) { throw refusal }
        try await signInSessions?.admit(token.caller, issuedAt: token.issuedAt)
        return token.caller
    }

    /// Makes the checks that do not need the state of the sign-in session. Returns nil if the token passes.
    private func refusal(of token: VerifiedToken) -> TokenRefusal? {
        let isExternal = token.caller.signInSession == nil
        if !trustsExternal && isExternal { return .external }
        return signInSessions == nil && !isExternal ? .revoked : nil
    }

    /// Checks the token's form, algorithm and signature, in that order, and returns its claims.
    private func claims(of token: String) throws(TokenRefusal) -> AccessClaims {
        guard Self.isCompactForm(token) else { throw .malformed }
        let bytes = Array(token.utf8)
        let parts = token.split(separator: ".")
        let parser = DefaultJWTParser()
        guard Self.isJSONObject(parts[0]) else { throw .malformed }
        guard let (header, _, signatureBytes) = try? parser.parse(bytes, as: AnyClaims.self) else { throw .malformed }
        guard header.alg == algorithm.rawValue else { throw .wrongAlgorithm }
        // RFC 7515, section 4.1.11: `crit` lists extensions that must be understood. We support none.
        guard header.fields["crit"] == nil else { throw .malformed }
        // RFC 7515, section 4.1.4: `kid` is a string. The value of `kid` does not matter, because there is only one
        // key.
        guard header.fields["kid"] == nil || header.kid != nil else { throw .malformed }
        // RFC 7515, section 5.2: the signed content is the first two parts and the dot between them.
        let content = bytes.prefix(parts[0].utf8.count + 1 + parts[1].utf8.count)
        guard signature.isValid(signatureBytes, of: content) else { throw .wrongSignature }
        // The parser accepted the payload as JSON above. A failure here means that a claim has the wrong type, or that
        // the payload is not an object with unique members.
        guard let claims = try? parser.parse(bytes, as: AccessClaims.self).payload, Self.isJSONObject(parts[1])
        else { throw .claims }
        return claims
    }

    /// Returns whether the part is a JSON object without duplicate members. JWTKit's decoder uses one of two duplicate
    /// members, and another service's decoder may use the other (RFC 7519, section 4; RFC 8725, section 2.4).
    private static func isJSONObject(_ part: Substring) -> Bool {
        guard let text = Base64URL.bytes(of: part), case .object = try? JSONValue.parse(text) else { return false }
        return true
    }

    /// Returns whether the token has three non-empty parts in base64url without padding (RFC 7515, section 7.1). The
    /// form is checked here, because Foundation's decoder is more lenient, and JWTKit treats an undecodable part as an
    /// empty part.
    static func isCompactForm(_ token: String) -> Bool {
        var dots = 0
        var partLength = 0
        for byte in token.utf8 {
            if byte == UInt8(ascii: ".") {
                guard partLength > 0, dots < 2 else { return false }
                dots += 1
                partLength = 0
            } else {
                guard Base64URL.isInAlphabet(byte) else { return false }
                partLength += 1
            }
        }
        return dots == 2 && partLength > 0
    }

    /// Accepts any JSON payload. With this type, the parser returns the header and the signature before the payload is
    /// read.
    private struct AnyClaims: JWTPayload {
        func verify(using algorithm: some JWTAlgorithm) {}
    }
}
