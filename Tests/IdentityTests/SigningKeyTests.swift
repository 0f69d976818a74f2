// Tests of signing keys: which keys are accepted, and which tokens an issuer refuses to sign. The server creates its
// own key once, in a file that only its owner can read.

import Foundation
import JWTKit
import JourneyModel
import Secrets
import Testing

@testable import Identity

@Suite struct SigningKeyTests {
    func withFolder<Answer>(_ body: (String) async throws -> Answer) async throws -> Answer {
        let folder = FileManager.default.temporaryDirectory.appending(path: "dwell-key-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        return try await body(folder.path(percentEncoded: false))
    }

    func permissions(_ path: String) throws -> Int {
        try #require(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
    }

    @Test func aSecretNeedsThirtyTwoBytes() throws {
        #expect(throws: SigningKeyError.secretTooShort) {
            try SigningKey(secret: Secret(String(repeating: "a", count: 31)))
        }
        #expect(try SigningKey(secret: Secret(String(repeating: "a", count: 32))).algorithm == .hs256)
        // The minimum counts bytes, not characters.
        #expect(try SigningKey(secret: Secret(String(repeating: "\u{E4}", count: 16))).algorithm == .hs256)
    }

    @Test(arguments: ["", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
    func whatIsNoPrivateKeyIsRefused(pem: String) {
        #expect(throws: SigningKeyError.notAPrivateKey) { try SigningKey(privateKeyPEM: Secret(pem)) }
    }

    @Test func aPublicKeyAndAKeyOfAnotherCurveAreRefused() {
        for pem in [ES256PrivateKey().publicKey.pemRepresentation, ES384PrivateKey().pemRepresentation] {
            #expect(throws: SigningKeyError.notAPrivateKey) { try SigningKey(privateKeyPEM: Secret(pem)) }
        }
    }

    @Test func aKeyDoesNotShowItself() throws {
        var dumped = ""
        dump(try hmacKey(), to: &dumped)
        #expect(!dumped.contains(secretText))
        #expect("\(try hmacKey())" == "SigningKey(HS256)")
    }

    @Test func theFirstStartMakesAKeyAndTheNextUsesIt() async throws {
        try await withFolder { folder in
            let file = LocalKeyFile(besideDatabase: folder + "/new/dwell.sqlite3")
            #expect(try file.load() == nil)
            let first = try file.loadOrCreate()
            #expect(try permissions(file.path) == 0o600)
            let second = try file.loadOrCreate()
            let token = try await AccessTokenIssuer(key: first, scope: scope)
                .mint(driver: DriverID("d"), role: nil, ttlSeconds: 60, now: now)
            #expect(await refusal(verifier(second), token) == nil)
            // The temporary file in which the key was created is deleted.
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder + "/new") == ["dwell.sqlite3.jwt-key"])
            // The content of the file, without the line feed, is the secret.
            let text = try String(contentsOfFile: file.path, encoding: .utf8)
            #expect(text.count == 65 && text.hasSuffix("\n"))
            let same = try SigningKey(secret: Secret(String(text.dropLast())))
            #expect(await refusal(verifier(same), token) == nil)
        }
    }

    @Test func manyThatStartAtOnceGetOneKey() async throws {
        try await withFolder { folder in
            let file = LocalKeyFile(besideDatabase: folder + "/dwell.sqlite3")
            let keys = try await withThrowingTaskGroup(of: SigningKey.self) { group in
                for _ in 0..<16 { group.addTask { try file.loadOrCreate() } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            let token = try await AccessTokenIssuer(key: keys[0], scope: scope)
                .mint(driver: DriverID("d"), role: nil, ttlSeconds: 60, now: now)
            for key in keys { #expect(await refusal(verifier(key), token) == nil) }
        }
    }

    @Test(arguments: [0o640, 0o604, 0o644, 0o666, 0o610])
    func aKeyThatOthersCanReachIsRefused(mode: Int) async throws {
        try await withFolder { folder in
            let file = LocalKeyFile(besideDatabase: folder + "/dwell.sqlite3")
            _ = try file.loadOrCreate()
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
            #expect(throws: SigningKeyError.readableByOthers(path: file.path)) { try file.loadOrCreate() }
        }
    }

    @Test func whatIsNotAKeyFileIsRefused() async throws {
        try await withFolder { folder in
            let file = LocalKeyFile(besideDatabase: folder + "/dwell.sqlite3")
            #expect(
                FileManager.default.createFile(
                    atPath: file.path, contents: Data("short\n".utf8), attributes: [.posixPermissions: 0o600]))
            #expect(throws: SigningKeyError.secretTooShort) { try file.loadOrCreate() }
            try FileManager.default.removeItem(atPath: file.path)
            try FileManager.default.createSymbolicLink(atPath: file.path, withDestinationPath: "/dev/zero")
            #expect(throws: SigningKeyError.self) { try file.loadOrCreate() }
            try FileManager.default.removeItem(atPath: file.path)
            try FileManager.default.createDirectory(atPath: file.path, withIntermediateDirectories: false)
            #expect(throws: SigningKeyError.self) { try file.loadOrCreate() }
            try FileManager.default.removeItem(atPath: file.path)
            // A FIFO is rejected without waiting for a writer.
            try #require(mkfifo(file.path, 0o600) == 0)
            #expect(throws: SigningKeyError.file(path: file.path, reason: "not a regular file")) {
                try file.loadOrCreate()
            }
        }
    }

    @Test(
        arguments: [
            ("", nil, 60), ("a\u{0}", nil, 60), (String(repeating: "d", count: 129), nil, 60), ("d", "", 60),
            ("d", nil, 0), ("d", nil, -1), ("d", nil, .max),
        ] as [(String, String?, Int64)])
    func theIssuerSignsNothingThatNoVerifierAccepts(driver: String, role: String?, ttlSeconds: Int64) async throws {
        let issuer = await AccessTokenIssuer(key: try hmacKey(), scope: scope)
        await #expect(throws: TokenRefusal.claims) {
            try await issuer.mint(driver: DriverID(driver), role: role, ttlSeconds: ttlSeconds, now: now)
        }
    }

    @Test func aMintedTokenSaysWhatTheContractSays() async throws {
        let issuer = await AccessTokenIssuer(key: try hmacKey(), scope: scope)
        var ids: Set<String> = []
        for _ in 0..<10 {
            let token = try await issuer.mint(driver: DriverID("d"), role: "driver", ttlSeconds: 60, now: now)
            let part = String(token.split(separator: ".")[1]).replacing("-", with: "+").replacing("_", with: "/")
            let padded = part + String(repeating: "=", count: (4 - part.count % 4) % 4)
            let json = try #require(Data(base64Encoded: padded))
            let claims = try #require(try JSONSerialization.jsonObject(with: json) as? [String: Any])
            #expect(claims["sub"] as? String == "d" && claims["role"] as? String == "driver")
            #expect(claims["iat"] as? Int64 == now && claims["exp"] as? Int64 == now + 60)
            #expect(claims["sid"] == nil)
            ids.insert(try #require(claims["jti"] as? String))
        }
        #expect(ids.count == 10)
    }
}
