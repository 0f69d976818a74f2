// Checks that genuine notifications of Apple's server are accepted, and that forged notifications are rejected.

import Foundation
import Testing

@testable import Identity

@Suite struct AppleServerNotificationTests {
    private let key = AppleKeyPairs.first

    private func event(_ changes: [String: (any Sendable)?] = [:]) throws -> String {
        var event: [String: Any] = [
            "type": "consent-revoked", "sub": "001234.abc.0987", "event_time": (now - 3) * 1000,
            "email": "abc@privaterelay.example", "is_private_email": "true",
        ]
        for (name, value) in changes { event[name] = value }
        return String(decoding: try JSONSerialization.data(withJSONObject: event), as: UTF8.self)
    }

    private func notice(
        _ changes: [String: (any Sendable)?] = [:], event: String? = nil, key: AppleKeyPair? = nil
    ) async throws -> AppleServerNotification {
        let event = try event ?? self.event()
        let base: [String: (any Sendable)?] = [
            "events": event, "jti": "notice-1", "nonce": nil, "sub": nil, "exp": nil, "email": nil,
        ]
        let claims = try appleClaims(base.merging(changes) { $1 })
        return try await appleVerifier().notice(
            of: (key ?? self.key).token(claims: claims), atSecondsSince1970: now)
    }

    private func refusal(
        _ changes: [String: (any Sendable)?] = [:], event: String? = nil, key: AppleKeyPair? = nil
    ) async -> AppleTokenRefusal? {
        do {
            _ = try await notice(changes, event: event, key: key)
            return nil
        } catch {
            return error as? AppleTokenRefusal
        }
    }

    @Test(arguments: [
        ("consent-revoked", AppleServerNotification.Kind.consentRevoked), ("account-delete", .accountDeleted),
        ("account-deleted", .accountDeleted), ("email-enabled", .emailEnabled), ("email-disabled", .emailDisabled),
        ("something-new", .other), ("", .other),
    ])
    func kinds(type: String, kind: AppleServerNotification.Kind) async throws {
        #expect(
            try await notice(event: try event(["type": type]))
                == AppleServerNotification(
                    kind: kind, subject: "001234.abc.0987", jti: "notice-1", happenedAtSeconds: now - 3))
    }

    @Test func timesInSecondsOrMilliseconds() async throws {
        #expect(try await notice(event: try event(["event_time": now])).happenedAtSeconds == now)
        #expect(try await notice(event: try event(["event_time": nil])).happenedAtSeconds == nil)
        #expect(try await notice(event: try event(["event_time": "soon"])).happenedAtSeconds == nil)
        #expect(try await notice(event: try event(["event_time": -1])).happenedAtSeconds == nil)
        #expect(try await notice(event: try event(["event_time": 0])).happenedAtSeconds == nil)
    }

    @Test func forgedNotices() async throws {
        #expect(await refusal(key: AppleKeyPairs.second.named("key-1")) == .refused(.wrongSignature))
        #expect(await refusal(key: AppleKeyPairs.second) == .refused(.unknownKey))
        #expect(await refusal(["iss": "https://evil.example"]) == .refused(.wrongIssuer))
        #expect(await refusal(["aud": "other"]) == .refused(.wrongAudience))
        #expect(await refusal(["aud": [String]()]) == .refused(.wrongAudience))
        #expect(await refusal(["exp": now - 1]) == .refused(.expired))
        #expect(await refusal(["iat": now + 301]) == .refused(.notYetValid))
    }

    @Test func anIdentityTokenIsNoNotice() async throws {
        let token = key.token(claims: try appleClaims())
        await #expect(throws: AppleTokenRefusal.refused(.claims)) {
            _ = try await appleVerifier().notice(of: token, atSecondsSince1970: now)
        }
    }

    @Test func aNoticeIsNoIdentityToken() async throws {
        let claims = try appleClaims(["events": try event(), "jti": "notice-1", "nonce": nil])
        #expect(await appleRefusal(key.token(claims: claims)) == .refused(.wrongNonce))
    }

    @Test func missingAndUnusableMembers() async throws {
        for value: (any Sendable)? in [nil, "", 1, String(repeating: "j", count: 256)] {
            #expect(await refusal(["jti": value]) == .refused(.claims))
        }
        for value: (any Sendable)? in [nil, "{", "[]", 1, ["type": "account-delete", "sub": "x"]] {
            #expect(await refusal(["events": value]) == .refused(.claims))
        }
        for name in ["type", "sub"] {
            #expect(await refusal(event: try event([name: nil])) == .refused(.claims))
            #expect(await refusal(event: try event([name: 1])) == .refused(.claims))
        }
        let twice = #"{"sub":"somebody else","# + (try event()).dropFirst()
        #expect(await refusal(event: twice) == .refused(.claims))
    }
}
