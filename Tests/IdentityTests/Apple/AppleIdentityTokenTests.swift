// Checks that valid identity tokens are accepted (contract, section 6), and that forged or misused tokens are rejected.
// The tests call attacks by their names in RFC 8725.

import Crypto
import CryptoExtras
import Foundation
import JourneyModel
import Testing

@testable import Identity

@Suite struct AppleIdentityTokenTests {
    private let key = AppleKeyPairs.first

    private func identity(_ changes: [String: (any Sendable)?] = [:]) async throws -> AppleIdentity {
        try await appleVerifier().identity(
            of: key.token(claims: try appleClaims(changes)), rawNonce: rawNonce, atSecondsSince1970: now)
    }

    private func refusal(_ changes: [String: (any Sendable)?]) async throws -> AppleTokenRefusal? {
        await appleRefusal(key.token(claims: try appleClaims(changes)))
    }

    // MARK: Valid tokens

    @Test func aGoodTokenIsAPerson() async throws {
        let claim = Array(SHA256.hash(data: Data(rawNonce.utf8))).map { String(format: "%02x", $0) }.joined()
        let person = try await identity()
        #expect(person.tokenDigest.count == 32)
        #expect(
            person
                == AppleIdentity(
                    subject: "001234.abc.0987", clientID: "org.example.chargers", email: "abc@privaterelay.example",
                    isEmailVerified: true, isPrivateEmail: true,
                    nonceDigest: Array(SHA256.hash(data: Data(claim.utf8))), tokenDigest: person.tokenDigest,
                    expiresAtSeconds: now + 600))
    }

    @Test func bothIssuersAreApple() async throws {
        #expect(try await refusal(["iss": "https://account.apple.com"]) == nil)
    }

    @Test func theAudienceIsOneOfOurs() async throws {
        #expect(try await identity(["aud": "org.example.chargers.watch"]).clientID == "org.example.chargers.watch")
        #expect(try await identity(["aud": ["other", "org.example.chargers"]]).clientID == "org.example.chargers")
    }

    @Test(arguments: [true, false])
    func flagsComeAsBooleanOrString(flag: Bool) async throws {
        for value: any Sendable in [flag, flag ? "true" : "false"] {
            let identity = try await identity(["email_verified": value, "is_private_email": value])
            #expect(identity.isEmailVerified == flag)
            #expect(identity.isPrivateEmail == flag)
        }
    }

    @Test func anythingElseIsNoYes() async throws {
        for value: (any Sendable)? in ["TRUE", "yes", 1, nil, ["true"]] {
            #expect(try await identity(["email_verified": value]).isEmailVerified == false)
        }
    }

    @Test func anEmailThatIsNoneIsLeftOut() async throws {
        for value: (any Sendable)? in [nil, 1, "", "nobody", "a@b@c", "a@b\n"] {
            #expect(try await identity(["email": value]).email == nil)
        }
    }

    @Test func fractionsOfSecondsAreRememberedLongEnough() async throws {
        #expect(try await identity(["exp": Double(now) + 0.5]).expiresAtSeconds == now + 1)
    }

    @Test func issuedInFiveMinutesIsOneOfTwoClocks() async throws {
        #expect(try await refusal(["iat": now + 300]) == nil)
    }

    // MARK: Algorithm and key

    @Test(arguments: [
        "none", "None", "NONE", "nOnE", "HS256", "RS384", "RS512", "PS256", "ES256", "rs256", "RS256 ", "",
    ])
    func theTokenDoesNotChooseTheAlgorithm(name: String) async throws {
        let token = key.token(header: #"{"alg":"\#(name)","kid":"key-1"}"#, claims: try appleClaims())
        #expect(await appleRefusal(token) == .refused(.wrongAlgorithm))
    }

    @Test(arguments: [#"{"kid":"key-1"}"#, #"{"alg":null,"kid":"key-1"}"#, #"{"alg":["RS256"],"kid":"key-1"}"#])
    func anAlgorithmThatIsNoText(header: String) async throws {
        #expect(await appleRefusal(key.token(header: header, claims: try appleClaims())) == .refused(.wrongAlgorithm))
    }

    @Test func algNoneWithoutSignature() async throws {
        let header = base64URL(Data(#"{"alg":"none","kid":"key-1"}"#.utf8))
        let token = header + "." + base64URL(Data(try appleClaims().utf8)) + "."
        #expect(await appleRefusal(token) == .refused(.malformed))
    }

    /// RFC 8725 section 2.1: the attacker uses the public key, in each of the key's usual formats, as an HMAC secret.
    @Test func keyConfusionHS256WithThePublicKey() async throws {
        let publicKey = key.key.publicKey
        let jwk = key.jwk()
        let modulus = try #require(jwk["n"] as? String)
        let forms: [Data] = [
            Data(publicKey.pemRepresentation.utf8), Data((publicKey.pemRepresentation + "\n").utf8),
            publicKey.derRepresentation, publicKey.pkcs1DERRepresentation,
            Data(publicKey.pkcs1PEMRepresentation.utf8), Data(modulus.utf8),
            try publicKey.getKeyPrimitives().modulus, try JSONSerialization.data(withJSONObject: jwk),
        ]
        for form in forms {
            for name in ["HS256", "RS256"] {
                let input =
                    base64URL(Data(#"{"alg":"\#(name)","kid":"key-1"}"#.utf8)) + "."
                    + base64URL(Data(try appleClaims().utf8))
                let code = HMAC<SHA256>.authenticationCode(for: Data(input.utf8), using: SymmetricKey(data: form))
                let expected: AppleTokenRefusal.Reason = name == "HS256" ? .wrongAlgorithm : .wrongSignature
                #expect(await appleRefusal(input + "." + base64URL(Data(code))) == .refused(expected))
            }
        }
    }

    @Test func signedWithAnotherKeyUnderApplesName() async throws {
        let token = AppleKeyPairs.second.named("key-1").token(claims: try appleClaims())
        #expect(await appleRefusal(token) == .refused(.wrongSignature))
    }

    @Test func signedWithAShortKeyThatThePublishedSetHas() async throws {
        let short = AppleKeyPairs.short
        let source = ScriptedKeySet(short, key)
        let verifier = AppleTokenVerifier(
            clientIDs: appleClientIDs,
            keys: AppleKeySet(source: source, clock: { .init(millisecondsSinceEpoch: now * 1000) }))
        #expect(await appleRefusal(short.token(claims: try appleClaims()), verifier: verifier) == .refused(.unknownKey))
        #expect(await appleRefusal(key.token(claims: try appleClaims()), verifier: verifier) == nil)
    }

    @Test(arguments: [
        "../../../../dev/null", "/etc/passwd", "file:///dev/null", "https://evil.example/keys", "key-1'--",
        #"key-1\u0000"#,
        "KEY-1", " key-1", "key-1 ", "ke\\u0301y",
    ])
    func aKeyNameIsANameAndNothingElse(name: String) async throws {
        let token = key.token(header: #"{"alg":"RS256","kid":"\#(name)"}"#, claims: try appleClaims())
        #expect(await appleRefusal(token) == .refused(.unknownKey))
    }

    @Test(arguments: [
        #"{"alg":"RS256"}"#, #"{"alg":"RS256","kid":null}"#, #"{"alg":"RS256","kid":1}"#, #"{"alg":"RS256","kid":""}"#,
        #"{"alg":"RS256","kid":["key-1"]}"#, #"{"alg":"RS256","kid":"\#(String(repeating: "k", count: 257))"}"#,
    ])
    func aKeyNameThatIsNone(header: String) async throws {
        #expect(await appleRefusal(key.token(header: header, claims: try appleClaims())) == .refused(.unknownKey))
    }

    @Test(arguments: ["jku", "x5u", "jwk", "x5c", "x5t"])
    func keysThatTheTokenBringsAreIgnored(member: String) async throws {
        let mine = AppleKeyPairs.second.named("key-1")
        let jwk = String(decoding: try JSONSerialization.data(withJSONObject: mine.jwk()), as: UTF8.self)
        let value = member == "jwk" ? jwk : #""https://evil.example/keys""#
        let header = #"{"alg":"RS256","kid":"key-1","\#(member)":\#(value)}"#
        #expect(await appleRefusal(mine.token(header: header, claims: try appleClaims())) == .refused(.wrongSignature))
        #expect(await appleRefusal(key.token(header: header, claims: try appleClaims())) == nil)
    }

    @Test(arguments: [#"["b64"]"#, "[]", "null", "1"])
    func criticalExtensionsAreNotUnderstood(value: String) async throws {
        let header = #"{"alg":"RS256","kid":"key-1","crit":\#(value),"b64":false}"#
        #expect(await appleRefusal(key.token(header: header, claims: try appleClaims())) == .refused(.malformed))
    }

    @Test func everyChangedCharacterIsNoticed() async throws {
        let verifier = appleVerifier()
        let token = Array(key.token(claims: try appleClaims()).utf8)
        for place in token.indices where place % 5 == 0 || place > token.count - 10 {
            var changed = token
            changed[place] = changed[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            guard token[place] != UInt8(ascii: ".") else { continue }
            let refusal = await appleRefusal(String(decoding: changed, as: UTF8.self), verifier: verifier)
            #expect(refusal != nil, "place \(place)")
        }
    }

    // MARK: Claims

    @Test func times() async throws {
        #expect(try await refusal(["exp": now]) == .refused(.expired))
        #expect(try await refusal(["exp": now - 1]) == .refused(.expired))
        #expect(try await refusal(["exp": 0]) == .refused(.expired))
        #expect(try await refusal(["exp": -1]) == .refused(.expired))
        #expect(try await refusal(["exp": nil]) == .refused(.claims))
        #expect(try await refusal(["exp": "\(now + 600)"]) == .refused(.claims))
        #expect(try await refusal(["exp": true]) == .refused(.claims))
        #expect(try await refusal(["exp": [now + 600]]) == .refused(.claims))
        #expect(try await refusal(["iat": now + 301]) == .refused(.notYetValid))
        #expect(try await refusal(["iat": "\(now)"]) == .refused(.claims))
        #expect(try await refusal(["nbf": now + 301]) == .refused(.notYetValid))
    }

    @Test(arguments: ["1e400", "9e99", "9007199254740992"])
    func aTimeBeyondAllNumbers(text: String) async throws {
        let claims = try appleClaims(["exp": "EXP"]).replacing("\"EXP\"", with: text)
        #expect(await appleRefusal(key.token(claims: claims)) == .refused(.claims))
    }

    @Test func audiences() async throws {
        let others: [(any Sendable)?] = [
            nil, [String](), "", "other", ["other"], [["org.example.chargers"]], ["0": "org.example.chargers"], 1, true,
            "org.example.chargers.x", "org.example.charger", "ORG.EXAMPLE.CHARGERS",
            "org.example.chargers,org.example.chargers.watch", ["org.example.chargers", 1] as [any Sendable],
        ]
        for other in others { #expect(try await refusal(["aud": other]) == .refused(.wrongAudience)) }
    }

    @Test func withoutClientIDsNobodySignsInAndAppleIsNotAsked() async throws {
        let source = ScriptedKeySet(key)
        let keys = AppleKeySet(source: source, clock: { .init(millisecondsSinceEpoch: now * 1000) })
        let verifier = AppleTokenVerifier(clientIDs: [], keys: keys)
        #expect(
            await appleRefusal(key.token(claims: try appleClaims()), verifier: verifier) == .refused(.wrongAudience))
        #expect(source.fetchCount == 0)
    }

    @Test func issuers() async throws {
        let others: [(any Sendable)?] = [
            nil, "", "apple", "http://appleid.apple.com", "https://appleid.apple.com/",
            "https://appleid.apple.com.evil.example",
            "HTTPS://APPLEID.APPLE.COM", ["https://appleid.apple.com"], 1,
        ]
        for other in others { #expect(try await refusal(["iss": other]) == .refused(.wrongIssuer)) }
    }

    @Test func subjects() async throws {
        let others: [(any Sendable)?] = [
            nil, "", 1, ["x"], String(repeating: "x", count: 256), "a\u{0}b", "a\u{2028}b",
        ]
        for other in others { #expect(try await refusal(["sub": other]) == .refused(.claims)) }
    }

    @Test func nonces() async throws {
        let good = Array(SHA256.hash(data: Data(rawNonce.utf8)))
        let claim = good.map { String(format: "%02x", $0) }.joined()
        let others: [(any Sendable)?] = [
            nil, "", rawNonce, claim.uppercased(), String(claim.dropLast()), claim + "0", [claim], true,
            base64URL(Data(good)), SHA256.hash(data: Data(claim.utf8)).map { String(format: "%02x", $0) }.joined(),
        ]
        for other in others { #expect(try await refusal(["nonce": other]) == .refused(.wrongNonce)) }
    }

    @Test func theRequestsNonceIsTheRawOne() async throws {
        let token = key.token(claims: try appleClaims())
        for nonce in ["", "another", rawNonce.uppercased(), rawNonce + " "] {
            #expect(await appleRefusal(token, nonce: nonce) == .refused(.wrongNonce))
        }
        let ofNothing = SHA256.hash(data: Data()).map { String(format: "%02x", $0) }.joined()
        let empty = key.token(claims: try appleClaims(["nonce": ofNothing]))
        #expect(await appleRefusal(empty, nonce: "") == .refused(.wrongNonce))
    }

    // MARK: Malformed tokens

    @Test func tornAndDecoratedTokens() async throws {
        let verifier = appleVerifier()
        let token = key.token(claims: try appleClaims())
        let parts = token.split(separator: ".").map(String.init)
        let torn = [
            "", ".", "..", "...", "x", parts[0], parts[0] + ".", "\(parts[0]).\(parts[1])", "\(parts[0]).\(parts[1]).",
            ".\(parts[1]).\(parts[2])", "\(parts[0])..\(parts[2])", token + ".", token + "." + parts[2], " " + token,
            token + "\n",
            token + "=", "\(parts[0])=.\(parts[1]).\(parts[2])", token.replacing("-", with: "+") + "+",
            "\(token.prefix(token.utf8.count / 2))", "e30.e30.e30",
        ]
        for text in torn {
            let refusal = await appleRefusal(text, verifier: verifier)
            #expect(
                refusal == .refused(.malformed) || (text == "e30.e30.e30" && refusal == .refused(.wrongAlgorithm)),
                "\(text)")
        }
    }

    /// The last of the 342 characters of a 256-byte signature has four unused bits. These bits must be zero, because
    /// otherwise the same signature would have several encodings.
    @Test func aSignatureHasOneSpelling() async throws {
        let token = key.token(claims: try appleClaims())
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        let last = try #require(token.last.flatMap { alphabet.firstIndex(of: $0) })
        #expect(last % 16 == 0)
        #expect(await appleRefusal(token.dropLast() + String(alphabet[last + 1])) == .refused(.malformed))
    }

    @Test func aTokenThatIsTooLong() async throws {
        let claims = try appleClaims(["pad": "PAD"])
        func token(padding count: Int) -> String {
            key.token(claims: claims.replacing("PAD", with: String(repeating: "x", count: count)))
        }
        var count = 5_000
        while token(padding: count + 3).utf8.count <= SignedToken.bytesMax { count += 3 }
        #expect(await appleRefusal(token(padding: count)) == nil)
        #expect(await appleRefusal(token(padding: count + 3)) == .refused(.malformed))
        #expect(await appleRefusal(String(repeating: "a", count: 1 << 20)) == .refused(.malformed))
    }

    @Test(arguments: ["sub", "nonce", "exp", "aud", "x"])
    func aClaimThatComesTwice(name: String) async throws {
        let claims = #"{"\#(name)":"first","# + (try appleClaims(["x": "y"])).dropFirst()
        #expect(await appleRefusal(key.token(claims: claims)) == .refused(.malformed))
    }

    @Test(arguments: [
        #"{"alg":"none","alg":"RS256","kid":"key-1"}"#, #"{"alg":"RS256","kid":"evil","kid":"key-1"}"#,
        #"{"alg":"RS256","kid":"key-1","a":{"b":1,"b":2}}"#, #"{"alg":"RS256","kid":"key-1""#, "[]", "null",
        #""RS256""#,
        #"{"alg":"RS256","kid":"key-1"} x"#, "\u{FEFF}{\"alg\":\"RS256\",\"kid\":\"key-1\"}",
    ])
    func aHeaderWithTwoReadings(header: String) async throws {
        #expect(await appleRefusal(key.token(header: header, claims: try appleClaims())) == .refused(.malformed))
    }

    @Test(arguments: ["[]", "null", "{", "", "{}x", #"{"a":"# + String(repeating: "[", count: 2000)])
    func claimsThatAreNoObject(claims: String) async throws {
        #expect(await appleRefusal(key.token(claims: claims)) == .refused(.malformed))
    }
}
