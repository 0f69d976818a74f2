// Values that the tests of Apple's endpoints share: keys, a client secret, an identity, and token responses built by
// hand.

import Crypto
import Foundation
import Identity
import JourneyModel
import Outbound
import Secrets
import TestSupport

let seal = FieldEncryption(dataKey: Secret([UInt8](repeating: 7, count: 32)))
let subject = "001234.abc.0987"
let owner = Array(SHA256.hash(data: Data(subject.utf8)))

let identity = AppleIdentity(
    subject: subject, clientID: "org.example.chargers", email: nil, isEmailVerified: false, isPrivateEmail: false,
    nonceDigest: [], tokenDigest: [], expiresAtSeconds: 0)

func endpoint(_ http: OutgoingHTTP, _ url: URL, clock: ManualClock = ManualClock()) async throws -> AppleTokenEndpoint {
    let key = try SigningKey(privateKeyPEM: Secret(P256.Signing.PrivateKey().pemRepresentation))
    return AppleTokenEndpoint(
        http: http, tokenURL: url, revokeURL: url,
        clientSecret: await AppleClientSecret(teamID: "TEAM123456", keyID: "KEY1234567", key: key), seal: seal,
        clock: { clock.now })
}

func base64URL(_ text: String) -> String {
    Data(text.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
}

func tokenAnswer(of subject: String, refreshToken: String = "apple-refresh-token") -> String {
    let identityToken = [#"{"alg":"RS256"}"#, #"{"sub":"\#(subject)"}"#, "signature"].map(base64URL).joined(
        separator: ".")
    return #"{"access_token":"a","refresh_token":"\#(refreshToken)","id_token":"\#(identityToken)"}"#
}
