// The rules by which the claims of Apple's tokens are accepted (contract, section 6). Pure: takes verified JSON,
// the expected values, and the time; returns an identity or a notification, or throws a reason. Knows neither
// signatures nor keys.

import Foundation
import JourneyModel

struct AppleClaims {
    static let issuers = ["https://appleid.apple.com", "https://account.apple.com"]
    /// Apple's clock, and the phone's, may be ahead of ours by this much.
    static let aheadSecondsMax = 300.0
    /// Apple's `sub` has 44 characters.
    static let subjectLengthMax = 255
    static let identifierLengthMax = 255

    private let json: JSONValue
    /// Our client id that `aud` names, the first when there are several.
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

    /// The person of an identity token, if the nonce is the request's.
    func identity(rawNonce: String, tokenDigest: [UInt8]) throws(AppleTokenRefusal) -> AppleIdentity {
        // Beyond 2^53 seconds a Double is not exact, and no token lives that long.
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

    /// A server notification: `events` is one event, as JSON in a string.
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

    /// One string or an array of them (RFC 7519, section 4.1.3); an array with any other element gives no names.
    private static func audience(_ claim: JSONValue?) -> [String] {
        switch claim {
        case .string(let name)?: return [name]
        case .array(let members)?:
            let names = members.compactMap(\.text)
            return names.count == members.count ? names : []
        default: return []
        }
    }

    /// Lower-case hexadecimal SHA-256 of the raw nonce's UTF-8.
    static func nonceClaim(_ rawNonce: String) -> String {
        plainDigest(rawNonce).map { byte in
            let digits = String(byte, radix: 16)
            return digits.utf8.count == 1 ? "0" + digits : digits
        }.joined()
    }

    /// Apple sends Booleans as Booleans or as strings.
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

    /// Apple documents seconds and sends milliseconds: no current time in seconds has twelve digits.
    private static func seconds(_ time: JSONValue?) -> Int64? {
        guard let number = time?.finiteNumber, number >= 0, number < 0x1p53 else { return nil }
        return Int64(number < 1e11 ? number : number / 1000)
    }
}
