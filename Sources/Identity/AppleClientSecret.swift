// Our client secret for Apple's token endpoint: a JWT signed with the team's key. Each request to the endpoint gets a
// new secret.

import JWTKit
package import Secrets

package struct AppleClientSecret: Sendable {
    /// Lifetime of a secret. Apple allows six months. The lifetime is longer than a request takes, because Apple's
    /// clock may differ from ours.
    static let timeToLiveSeconds: Int64 = 300
    static let audience = "https://appleid.apple.com"

    private let keys: JWTKeyCollection
    private let header: JWTHeader
    private let teamID: String

    /// `key` is the key in `APPLE_PRIVATE_KEY_FILE`, and `keyID` is Apple's id for this key.
    package init(teamID: String, keyID: String, key: SigningKey) async {
        keys = await key.collection()
        header = JWTHeader(fields: ["kid": .string(keyID)])
        self.teamID = teamID
    }

    /// Returns the secret for one of the team's client ids.
    package func text(for clientID: String, atSecondsSince1970 now: Int64) async throws -> Secret<String> {
        Secret(
            try await keys.sign(
                Claims(
                    iss: teamID, sub: clientID, aud: Self.audience, iat: now, exp: now + Self.timeToLiveSeconds),
                header: header))
    }

    private struct Claims: JWTPayload {
        var iss: String
        var sub: String
        var aud: String
        var iat: Int64
        var exp: Int64

        /// Does nothing, because these claims are only signed here, never verified.
        func verify(using algorithm: some JWTAlgorithm) {}
    }
}
