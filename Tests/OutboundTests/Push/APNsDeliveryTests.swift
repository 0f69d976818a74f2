// Tests what is sent to APNs, what each documented answer leads to, and when the provider token is renewed.

import Crypto
import Foundation
import Identity
import JourneyModel
import Push
import Secrets
import TestSupport
import Testing

@testable import Outbound

@Suite struct APNsDeliveryTests {
    private let clock = ManualClock()
    private static let device = String(repeating: "0aF9", count: 16)

    private func delivery(_ service: ScriptedPushService) throws -> APNsDelivery {
        let key = try SigningKey(privateKeyPEM: Secret(P256.Signing.PrivateKey().pemRepresentation))
        let token = try #require(APNsProviderToken(teamID: "TEAM123456", keyID: "KEY1234567", key: key))
        return APNsDelivery(
            channels: [.production: service], token: token, topic: "org.example.chargers",
            clock: { [clock] in clock.now })
    }

    private func notification(
        _ kind: PushNotification.Kind = .alert, token: String = Self.device, collapseID: String? = "s-1",
        expiresAt: Moment? = nil, in environment: APNsEnvironment = .production
    ) -> PushNotification {
        PushNotification(
            service: .apple(environment), kind: kind, token: token, payload: Array(#"{"aps":{}}"#.utf8),
            collapseID: collapseID, expiresAt: expiresAt, priority: kind == .background ? 5 : 10)
    }

    // MARK: The request

    @Test func theFieldsOfEachKind() async throws {
        let service = ScriptedPushService()
        let delivery = try delivery(service)
        for (kind, type, topic) in [
            (PushNotification.Kind.alert, "alert", "org.example.chargers"),
            (.background, "background", "org.example.chargers"),
            (.liveActivity, "liveactivity", "org.example.chargers.push-type.liveactivity"),
        ] {
            let deadline = clock.now.advanced(bySeconds: 180)
            #expect(await delivery.send(notification(kind, expiresAt: deadline)) == .delivered)
            let request = try #require(service.requests.last)
            #expect(request.path == "/3/device/\(Self.device)" && request.body == Array(#"{"aps":{}}"#.utf8))
            #expect(request.field("apns-push-type") == type && request.field("apns-topic") == topic)
            #expect(request.field("apns-priority") == (kind == .background ? "5" : "10"))
            #expect(request.field("apns-expiration") == String(deadline.millisecondsSinceEpoch / 1000))
            #expect(request.field("apns-collapse-id") == "s-1")
            #expect(request.field("authorization")?.hasPrefix("bearer ") == true)
        }
        #expect(Set(service.requests.map { $0.field("authorization") }).count == 1)
        _ = await delivery.send(notification(collapseID: nil))
        #expect(service.requests.last?.field("apns-expiration") == "0")
        #expect(service.requests.last?.field("apns-collapse-id") == nil)
    }

    @Test func whatCannotBeSentIsNotSent() async throws {
        let service = ScriptedPushService()
        let delivery = try delivery(service)
        for token in ["", "xyz", "ab/../cd", "ab?c", "ab\r\n", String(repeating: "a", count: 513)] {
            #expect(await delivery.send(notification(token: token)) == .refused(reason: "BadDeviceToken"))
        }
        for id in ["a\r\nx: y", "ü", "\0"] {
            #expect(await delivery.send(notification(collapseID: id)) == .refused(reason: "BadCollapseId"))
        }
        #expect(await delivery.send(notification(in: .sandbox)) == .refused(reason: "not_configured"))
        #expect(service.requests.isEmpty)
    }

    // MARK: Answers

    @Test(arguments: [
        (200, "", PushOutcome.delivered),
        (
            410, #"{"reason":"Unregistered","timestamp":1750000000123}"#,
            .unregistered(since: Moment(millisecondsSinceEpoch: 1_750_000_000_123))
        ),
        (410, #"{"reason":"ExpiredToken"}"#, .unregistered(since: nil)),
        (410, #"{"reason":"Unregistered","timestamp":1.5}"#, .unregistered(since: nil)),
        (410, "", .unregistered(since: nil)),
        (429, #"{"reason":"TooManyRequests"}"#, .unavailable(reason: "TooManyRequests", afterSeconds: 60)),
        (
            429, #"{"reason":"TooManyProviderTokenUpdates"}"#,
            .unavailable(reason: "TooManyProviderTokenUpdates", afterSeconds: 60)
        ),
        (500, #"{"reason":"InternalServerError"}"#, .unavailable(reason: "InternalServerError", afterSeconds: nil)),
        (503, #"{"reason":"Shutdown"}"#, .unavailable(reason: "Shutdown", afterSeconds: nil)),
        (502, "<html>", .unavailable(reason: "status_502", afterSeconds: nil)),
        (400, #"{"reason":"IdleTimeout"}"#, .unavailable(reason: "IdleTimeout", afterSeconds: nil)),
        (400, #"{"reason":"BadDeviceToken"}"#, .refused(reason: "BadDeviceToken")),
        (403, #"{"reason":"InvalidProviderToken"}"#, .refused(reason: "InvalidProviderToken")),
        (413, #"{"reason":"PayloadTooLarge"}"#, .refused(reason: "PayloadTooLarge")),
        // The reason becomes part of a log line. A reason that is not one word is therefore replaced by the status.
        (400, #"{"reason":"a\nb"}"#, .refused(reason: "status_400")), (404, "{}", .refused(reason: "status_404")),
        (400, #"{"reason":7}"#, .refused(reason: "status_400")),
    ])
    func whatEachAnswerLeadsTo(status: Int, body: String, outcome: PushOutcome) async throws {
        let service = ScriptedPushService([.success(response(status, body))])
        #expect(await (try delivery(service)).send(notification()) == outcome)
        #expect(service.requests.count == 1)
    }

    @Test func theServicesPauseIsKept() async throws {
        let service = ScriptedPushService([
            .success(response(503, retryAfter: 7)), .success(response(429, retryAfter: 1_000_000)),
        ])
        let delivery = try delivery(service)
        #expect(await delivery.send(notification()) == .unavailable(reason: "status_503", afterSeconds: 7))
        #expect(await delivery.send(notification()) == .unavailable(reason: "status_429", afterSeconds: 3600))
    }

    @Test(arguments: [OutgoingFailure.timedOut, .unreachable, .busy, .cancelled, .notTrusted, .notHTTP2])
    func aFailedCall(failure: OutgoingFailure) async throws {
        let outcome = await (try delivery(ScriptedPushService([.failure(failure)]))).send(notification())
        #expect(outcome == .unavailable(reason: failure.rawValue, afterSeconds: nil))
    }

    // MARK: The provider token

    @Test func anExpiredTokenIsRenewedAndTheNotificationSentAgain() async throws {
        let expired = ScriptedPushService.Answer.success(response(403, #"{"reason":"ExpiredProviderToken"}"#))
        let service = ScriptedPushService([.success(response(200)), expired])
        let delivery = try delivery(service)
        _ = await delivery.send(notification())
        clock.advance(bySeconds: 1200)
        #expect(await delivery.send(notification()) == .delivered)
        let tokens = service.requests.map { $0.field("authorization") }
        #expect(tokens.count == 3 && tokens[0] == tokens[1] && tokens[1] != tokens[2])
    }

    @Test func aTokenIsNotRenewedWithinTwentyMinutes() async throws {
        let expired = ScriptedPushService.Answer.success(response(403, #"{"reason":"ExpiredProviderToken"}"#))
        let service = ScriptedPushService([expired, expired])
        let delivery = try delivery(service)
        #expect(
            await delivery.send(notification()) == .unavailable(reason: "ExpiredProviderToken", afterSeconds: 1200))
        clock.advance(bySeconds: 300)
        #expect(await delivery.send(notification()) == .unavailable(reason: "ExpiredProviderToken", afterSeconds: 900))
        #expect(Set(service.requests.map { $0.field("authorization") }).count == 1 && service.requests.count == 2)
    }

    @Test func aNewTokenThatIsRejectedTooEndsTheAttempt() async throws {
        let expired = ScriptedPushService.Answer.success(response(403, #"{"reason":"ExpiredProviderToken"}"#))
        let service = ScriptedPushService([.success(response(200)), expired, expired])
        let delivery = try delivery(service)
        _ = await delivery.send(notification())
        clock.advance(bySeconds: 1200)
        #expect(await delivery.send(notification()) == .unavailable(reason: "ExpiredProviderToken", afterSeconds: nil))
        #expect(service.requests.count == 3)
    }
}
