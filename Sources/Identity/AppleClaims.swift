// The rules for accepting the claims of Apple's tokens (contract, section 6). The input is verified JSON, the expected
// values and the time.
//
// AppleTokenVerifier checks signatures and keys.

import Foundation
import JourneyModel

struct AppleClaims {
    static let issuers = ["https://appleid.apple.com", "https://account.apple.com"]
    /// How many seconds `iat` and `nbf` may be in the future, because Apple's clock may be ahead of ours.
    static let aheadSecondsMax = 300.0
    /// Apple's `sub` has 44 characters.
    static let subjectLengthMax = 255
    static let identifierLengthMax = 255

    private let json: JSONValue
    /// The client id of ours that `aud` names. If `aud` names several of our client ids, the first of them in our list.
    private let clientID: String

    /// Checks the claims common to all of Apple's tokens: `iss`, `aud`, `exp`, `nbf`, `iat`. `exp` may be missing
    /// only if `needsExpiry` is false.
    init(
        _ json: JSONValue, clientIDs: [String], atSecondsSince1970 now: Int64, needsExpiry: Bool
    ) throws(AppleTokenRefusal) {
        guard let issuer = json["iss"]?.text, Self.issuers.contains(where: { haveSameBytes($0, issuer) }) else {
            throw .refused(.wrongIssuer)
        }
        let audience = Self.audience(json["aud"])
        guard let clientID = clientIDs.first(where: { id in audience.contains { haveSameBytes($0, id) } }) else {
            throw .refused(.wrongAudience)
        }
        if needsExpiry || json["exp"] != nil {
            guard let expiry = json["exp"]?.finiteNumber else { throw .refused(.claims) }
            guard Double(now) < expiry else { throw .refused(.expired) }
        }
        for name in ["iat", "nbf"] {
            guard let claim = json[name] else { continue }
            guard let time = claim.finiteNumber else { throw .refused(.claims) }
            guard time <= Double(now) + Self.aheadSecondsMax else { throw .refused(.notYetValid) }
        }
        self.json = json
        self.clientID = clientID
    }

    /// Returns the person that an identity token identifies. `rawNonce` comes from the request. Throws `wrongNonce` if
    /// the claim `nonce` is not the hash of `rawNonce`.
    func identity(rawNonce: String, tokenDigest: [UInt8]) throws(AppleTokenRefusal) -> AppleIdentity {
        // An expiry of 2^53 or later is refused: a Double is not exact there, and no real token is valid that long.
        guard let expiry = json["exp"]?.finiteNumber, expiry < 0x1p53 else { throw .refused(.claims) }
        let subject = try usable("sub", of: json, lengthMax: Self.subjectLengthMax)
        guard let nonce = json["nonce"]?.text, !rawNonce.isEmpty,
            Array(nonce.utf8).equalsInConstantTime(Array(Self.nonceClaim(rawNonce).utf8))
        else { throw .refused(.wrongNonce) }
        let email = json["email"]?.text.flatMap { AccountRules.acceptsEmail($0) ? $0 : nil }
        return AppleIdentity(
            subject: subject, clientID: clientID, email: email,
            isEmailVerified: Self.isTrue(json["email_verified"]), isPrivateEmail: Self.isTrue(json["is_private_email"]),
            nonceDigest: plainDigest(nonce), tokenDigest: tokenDigest, expiresAtSeconds: Int64(expiry.rounded(.up)))
    }

    /// Returns the notification that the claims describe. The claim `events` is a string that contains the JSON of one
    /// event.
    func notice() throws(AppleTokenRefusal) -> AppleServerNotification {
        let jti = try usable("jti", of: json, lengthMax: Self.identifierLengthMax)
        guard let text = json["events"]?.text, let event = try? JSONValue.parse(Array(text.utf8)),
            let type = event["type"]?.text
        else { throw .refused(.claims) }
        let subject = try usable("sub", of: event, lengthMax: Self.subjectLengthMax)
        return AppleServerNotification(
            kind: Self.kind(type), subject: subject, jti: jti, happenedAtSeconds: Self.seconds(event["event_time"]))
    }

    // MARK: Values

    private func usable(_ name: String, of json: JSONValue, lengthMax: Int) throws(AppleTokenRefusal) -> String {
        guard let text = json[name]?.text, AccessClaims.isUsable(text, lengthMax: lengthMax) else {
            throw .refused(.claims)
        }
        return text
    }

    /// Returns the names in `aud`: one string or an array of strings (RFC 7519, section 4.1.3). If an element of the
    /// array is not a string, returns no names.
    private static func audience(_ claim: JSONValue?) -> [String] {
        switch claim {
        case .string(let name)?: return [name]
        case .array(let members)?:
            let names = members.compactMap(\.text)
            return names.count == members.count ? names : []
        default: return []
        }
    }

    /// Returns SHA-256 of the raw nonce's UTF-8 in lower-case hexadecimal.
    static func nonceClaim(_ rawNonce: String) -> String {
        plainDigest(rawNonce).hexadecimal
    }

    /// Apple sends Booleans as JSON Booleans or as strings.
    private static func isTrue(_ claim: JSONValue?) -> Bool {
        claim == .bool(true) || claim?.text == "true"
    }

    private static func kind(_ type: String) -> AppleServerNotification.Kind {
        switch type {
        case "consent-revoked": .consentRevoked
        case "account-delete", "account-deleted": .accountDeleted
        case "email-enabled": .emailEnabled
        case "email-disabled": .emailDisabled
        default: .other
        }
    }

    /// Returns a time in seconds. Apple documents seconds but sends milliseconds. A number with twelve or more digits
    /// counts as milliseconds, because a current time in seconds has ten digits.
    ///
    /// Returns nil for a number with fewer than ten digits, because it cannot be the time of an event.
    private static func seconds(_ time: JSONValue?) -> Int64? {
        guard let number = time?.finiteNumber, number >= 1e9, number < 0x1p53 else { return nil }
        return Int64(number < 1e11 ? number : number / 1000)
    }
}
