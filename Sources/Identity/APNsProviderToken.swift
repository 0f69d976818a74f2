// Our token for APNs (Apple, "Establishing a token-based connection to APNs"): a JWT signed with a key of the developer
// team. All connections of the process share one token.
//
// Apple accepts a token for an hour after its `iat`, and rejects providers that renew it more often than every 20
// minutes.

import Crypto
import JourneyModel
package import Secrets
import Synchronization

package final class APNsProviderToken: Sendable {
    /// The age at which a token is renewed.
    static let renewalSeconds: Int64 = 50 * 60
    /// A token younger than this is not renewed, even if APNs rejects it.
    static let renewalSecondsMin: Int64 = 20 * 60

    private struct Made {
        var text: Secret<String>
        var at: Int64
    }

    private let key: Secret<P256.Signing.PrivateKey>
    private let keyID: String
    private let teamID: String
    private let made = Mutex<Made?>(nil)

    /// Returns nil if `key` is not a key for ES256.
    package init?(teamID: String, keyID: String, key: SigningKey) {
        guard case .ecdsa(_, let key) = key.material else { return nil }
        self.key = key
        self.keyID = keyID
        self.teamID = teamID
    }

    /// Returns the current token. Makes a new one if there is none, or if the last one is 50 minutes old.
    package func text(atSecondsSince1970 now: Int64) throws -> Secret<String> {
        try made.withLock { made in
            // The lower bound discards a token whose `iat` is more than a minute in the future. Such a token was made
            // before the clock was set back, and Apple would reject it.
            if let made, (-60..<Self.renewalSeconds).contains(now - made.at) { return made.text }
            return try renew(&made, at: now)
        }
    }

    /// Returns the token to use after APNs has rejected `text` as expired. If another token is current by now, returns
    /// that token. If `text` is still the current token, returns a new token, or nil if `text` is less than 20 minutes
    /// old.
    package func text(afterRejected text: Secret<String>, atSecondsSince1970 now: Int64) throws -> Secret<String>? {
        try made.withLock { made in
            if let made, made.text != text { return made.text }
            if let made, (0..<Self.renewalSecondsMin).contains(now - made.at) { return nil }
            return try renew(&made, at: now)
        }
    }

    /// Returns how many seconds must pass until the token may be renewed; never less than 1.
    package func secondsUntilRenewal(atSecondsSince1970 now: Int64) -> Int {
        let age = made.withLock { made in made.map { max(0, now - $0.at) } ?? Self.renewalSecondsMin }
        return Int(max(1, Self.renewalSecondsMin - age))
    }

    private func renew(_ made: inout Made?, at now: Int64) throws -> Secret<String> {
        let text = try CompactJWS.token(
            header: [("alg", .string("ES256")), ("kid", .string(keyID))],
            claims: [("iss", .string(teamID)), ("iat", .number(String(now)))]
        ) { try key.reveal().signature(for: $0).rawRepresentation }
        made = Made(text: text, at: now)
        return text
    }
}
