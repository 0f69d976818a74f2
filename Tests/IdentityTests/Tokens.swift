// Tokens for the tests. Some come from the real issuer. Others are built by hand with swift-crypto, so that an
// attacker's tokens do not depend on the code under test.

import Crypto
import Foundation
import JWTKit
import JourneyModel
import Secrets

@testable import Identity

let scope = TokenScope(issuer: "dwell", audience: "dwell")
/// 2026-02-03T04:05:06Z.
let now: Int64 = 1_770_091_506
let secretText = "a secret of the tests, 32 bytes or more"

func hmacKey() throws -> SigningKey { try SigningKey(secret: Secret(secretText)) }

func verifier(
    _ key: SigningKey, trustExternal: Bool = true, sessions: (any SignInSessions)? = nil, rememberedMax: Int = 100
) async -> AccessTokenVerifier {
    AccessTokenVerifier(
        key: key, scope: scope, trustExternal: trustExternal, signInSessions: sessions, rememberedMax: rememberedMax)
}

func base64URL(_ bytes: some DataProtocol) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
}

func crafted(header: String = #"{"alg":"HS256","typ":"JWT"}"#, payload: String, secret: String = secretText) -> String {
    let input = base64URL(Data(header.utf8)) + "." + base64URL(Data(payload.utf8))
    let code = HMAC<SHA256>.authenticationCode(for: Data(input.utf8), using: SymmetricKey(data: Data(secret.utf8)))
    return input + "." + base64URL(Data(code))
}

/// Returns valid claims as JSON. `changes` replaces members; nil removes a member.
func payload(_ changes: [String: (any Sendable)?] = [:]) throws -> String {
    var claims: [String: Any] = [
        "sub": "driver-1", "iss": "dwell", "aud": "dwell", "iat": now - 10, "exp": now + 3600, "jti": "1",
    ]
    for (name, value) in changes { claims[name] = value }
    return String(decoding: try JSONSerialization.data(withJSONObject: claims), as: UTF8.self)
}

func fromMemory(
    _ verifier: AccessTokenVerifier, _ token: String, at time: Int64 = now
) -> Result<Caller, TokenRefusal>? {
    Array(token.utf8).withUnsafeBytes { bytes in
        switch verifier.judge(bytes, atSecondsSince1970: time) {
        case .known(let caller): .success(caller)
        case .refused(let refusal): .failure(refusal)
        case .needsLookup: nil
        }
    }
}

func refusal(_ verifier: AccessTokenVerifier, _ token: String, at time: Int64 = now) async -> TokenRefusal? {
    do throws(TokenRefusal) {
        _ = try await verifier.verify(token, atSecondsSince1970: time)
        return nil
    } catch {
        return error
    }
}
