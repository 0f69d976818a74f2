// Our token for the App Store Server API: a JWT signed with our key from App Store Connect. Each app has its own token,
// which is used until shortly before it expires.

import JWTKit
package import Secrets
import Synchronization

package final class AppStoreToken: Sendable {
    /// Lifetime of a token. Apple allows an hour.
    static let timeToLiveSeconds: Int64 = 1200
    /// A token is replaced when it is valid for less than this time.
    static let renewalSeconds: Int64 = 300
    static let audience = "appstoreconnect-v1"

    private let keys: JWTKeyCollection
    private let header: JWTHeader
    private let issuerID: String
    /// The newest token of each bundle id. There are few bundle ids, so the dictionary needs no limit.
    private let made = Mutex<[String: (text: Secret<String>, until: Int64)]>([:])

    package init(issuerID: String, keyID: String, key: SigningKey) async {
        keys = await key.collection()
        header = JWTHeader(fields: ["kid": .string(keyID)])
        self.issuerID = issuerID
    }

    package func text(for bundleID: String, atSecondsSince1970 now: Int64) async throws -> Secret<String> {
        let known = made.withLock { $0[bundleID] }
        // The second comparison discards a token whose `iat` is more than a minute in the future. Such a token was made
        // before the clock was set back, and Apple would reject it.
        if let known, now < known.until - Self.renewalSeconds, now > known.until - Self.timeToLiveSeconds - 60 {
            return known.text
        }
        let until = now + Self.timeToLiveSeconds
        let text = Secret(
            try await keys.sign(
                Claims(iss: issuerID, iat: now, exp: until, aud: Self.audience, bid: bundleID), header: header))
        made.withLock { $0[bundleID] = (text, until) }
        return text
    }

    private struct Claims: JWTPayload {
        var iss: String
        var iat: Int64
        var exp: Int64
        var aud: String
        var bid: String

        /// Does nothing, because these claims are only signed here, never verified.
        func verify(using algorithm: some JWTAlgorithm) {}
    }
}
