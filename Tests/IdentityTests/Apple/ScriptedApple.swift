// A scripted substitute for Apple: keys, and a key set that can be slow or unavailable. Tokens are built by hand, so
// that an attacker's tokens do not depend on the code under test.

import Crypto
import CryptoExtras
import Foundation
import JourneyModel
import Synchronization
import TestSupport

@testable import Identity

/// RSA key pairs, generated once because each takes a tenth of a second.
enum AppleKeyPairs {
    static let first = AppleKeyPair(name: "key-1")
    static let second = AppleKeyPair(name: "key-2")
    static let short = AppleKeyPair(name: "short", bits: 1024)
}

struct AppleKeyPair: Sendable {
    let name: String
    let key: _RSA.Signing.PrivateKey

    init(name: String, bits: Int = 2048) {
        self.name = name
        do {
            key = try _RSA.Signing.PrivateKey(unsafeKeySize: .init(bitCount: bits))
        } catch {
            fatalError("no RSA key: \(error)")
        }
    }

    private init(name: String, key: _RSA.Signing.PrivateKey) {
        self.name = name
        self.key = key
    }

    func named(_ name: String) -> AppleKeyPair { AppleKeyPair(name: name, key: key) }

    func signature(of text: String) -> Data {
        let digest = SHA256.hash(data: Data(text.utf8))
        return (try? key.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation) ?? Data()
    }

    func jwk(_ changes: [String: (any Sendable)?] = [:]) -> [String: Any] {
        let numbers = try? key.publicKey.getKeyPrimitives()
        var jwk: [String: Any] = [
            "kty": "RSA", "kid": name, "use": "sig", "alg": "RS256", "n": base64URL(numbers?.modulus ?? Data()),
            "e": base64URL(numbers?.publicExponent ?? Data()),
        ]
        for (member, value) in changes { jwk[member] = value }
        return jwk
    }

    func token(header: String? = nil, claims: String) -> String {
        let header = header ?? #"{"alg":"RS256","kid":"\#(name)"}"#
        let input = base64URL(Data(header.utf8)) + "." + base64URL(Data(claims.utf8))
        return input + "." + base64URL(signature(of: input))
    }
}

func keySet(_ keys: [Any]) -> [UInt8] {
    Array((try? JSONSerialization.data(withJSONObject: ["keys": keys])) ?? Data())
}

let appleClientIDs = ["org.example.chargers", "org.example.chargers.watch"]
let rawNonce = "a raw nonce"

/// Returns valid claims of an identity token as JSON. `changes` replaces members; nil removes a member.
func appleClaims(_ changes: [String: (any Sendable)?] = [:]) throws -> String {
    var claims: [String: Any] = [
        "iss": "https://appleid.apple.com", "aud": "org.example.chargers", "sub": "001234.abc.0987", "iat": now - 5,
        "exp": now + 600, "nonce": SHA256.hash(data: Data(rawNonce.utf8)).map { String(format: "%02x", $0) }.joined(),
        "nonce_supported": true, "email": "abc@privaterelay.example", "email_verified": "true",
        "is_private_email": true,
    ]
    for (name, value) in changes { claims[name] = value }
    return String(decoding: try JSONSerialization.data(withJSONObject: claims), as: UTF8.self)
}

final class ScriptedKeySet: AppleKeySetSource {
    private struct State {
        var answer: FetchedKeySet?
        var fetchCount = 0
        var isHeld = false
        var held: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    init(_ keys: AppleKeyPair..., maxAgeSeconds: Int? = nil) {
        state = Mutex(State(answer: FetchedKeySet(body: keySet(keys.map { $0.jwk() }), maxAgeSeconds: maxAgeSeconds)))
    }

    var fetchCount: Int { state.withLock { $0.fetchCount } }

    func publish(_ keys: AppleKeyPair..., maxAgeSeconds: Int? = nil) {
        let answer = FetchedKeySet(body: keySet(keys.map { $0.jwk() }), maxAgeSeconds: maxAgeSeconds)
        state.withLock { $0.answer = answer }
    }

    func publish(_ text: String) {
        state.withLock { $0.answer = FetchedKeySet(body: Array(text.utf8)) }
    }

    func goAway() { state.withLock { $0.answer = nil } }

    /// Makes all later fetches wait until `release`.
    func hold() { state.withLock { $0.isHeld = true } }

    func release() {
        let held = state.withLock { state in
            state.isHeld = false
            defer { state.held = [] }
            return state.held
        }
        for continuation in held { continuation.resume() }
    }

    func fetch() async -> FetchedKeySet? {
        await withCheckedContinuation { continuation in
            let isHeld = state.withLock { state in
                state.fetchCount += 1
                if state.isHeld { state.held.append(continuation) }
                return state.isHeld
            }
            if !isHeld { continuation.resume() }
        }
        return state.withLock { $0.answer }
    }
}

func appleVerifier(_ keys: AppleKeyPair = AppleKeyPairs.first) -> AppleTokenVerifier {
    let source = ScriptedKeySet(keys)
    return AppleTokenVerifier(
        clientIDs: appleClientIDs,
        keys: AppleKeySet(source: source, clock: { Moment(millisecondsSinceEpoch: now * 1000) }))
}

func appleRefusal(
    _ token: String, nonce: String = rawNonce, verifier: AppleTokenVerifier = appleVerifier(), at time: Int64 = now
) async -> AppleTokenRefusal? {
    do throws(AppleTokenRefusal) {
        _ = try await verifier.identity(of: token, rawNonce: nonce, atSecondsSince1970: time)
        return nil
    } catch {
        return error
    }
}
