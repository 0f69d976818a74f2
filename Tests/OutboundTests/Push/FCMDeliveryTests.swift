// Tests the message for FCM, what each answer leads to, and when the access token is renewed.

import CryptoExtras
import Foundation
import Identity
import JourneyModel
import Push
import TestSupport
import Testing

@testable import Outbound

@Suite(.timeLimit(.minutes(1))) struct FCMDeliveryTests {
    private static let account = Result {
        let key = try _RSA.Signing.PrivateKey(keySize: .bits2048).pemRepresentation
        let members = [
            "type": "service_account", "project_id": "chargers-1234", "private_key_id": "k", "private_key": key,
            "client_email": "push@example.org", "token_uri": "https://oauth2.example.org/token",
        ]
        return try GoogleServiceAccount(json: Array(JSONSerialization.data(withJSONObject: members)))
    }

    private func notification(_ payload: String, expiresAt: Moment? = nil, priority: Int = 10) -> PushNotification {
        PushNotification(
            service: .google, kind: .alert, token: "fGm3x:APA91b", payload: Array(payload.utf8), collapseID: "s-1",
            expiresAt: expiresAt, priority: priority)
    }

    private func message(_ notification: PushNotification) throws -> JSONValue? {
        try FCMDelivery.body(notification, at: .sample).map { try JSONValue.parse($0) }?["message"]
    }

    @Test func theMessage() throws {
        let sent = try message(
            notification(#"{"notification":{"body":"x"}}"#, expiresAt: Moment.sample.advanced(bySeconds: 180)))
        #expect(sent?["notification"]?["body"] == .string("x") && sent?["token"] == .string("fGm3x:APA91b"))
        #expect(sent?["android"]?["collapse_key"] == .string("s-1") && sent?["android"]?["ttl"] == .string("180s"))
        #expect(sent?["android"]?["priority"] == .string("HIGH"))
        let late = try message(
            notification("{}", expiresAt: Moment.sample.advanced(bySeconds: -1), priority: 5))
        #expect(late?["android"]?["ttl"] == .string("0s") && late?["android"]?["priority"] == .string("NORMAL"))
        let own = try message(notification(#"{"android":{"ttl":"9s","notification":{"tag":"t"}}}"#))
        #expect(own?["android"]?["ttl"] == .string("9s") && own?["android"]?["collapse_key"] == .string("s-1"))
        #expect(own?["android"]?["notification"]?["tag"] == .string("t"))
        for payload in ["", "[]", "{", #"{"android":1}"#] { #expect(try message(notification(payload)) == nil) }
    }

    private static func error(_ status: String, _ code: String? = nil) -> String {
        let details = code.map { #"[{"@type":"x","errorCode":"\#($0)"}]"# } ?? "[]"
        return #"{"error":{"code":1,"message":"m","status":"\#(status)","details":\#(details)}}"#
    }

    @Test(arguments: [
        (200, "{}", PushOutcome.delivered), (404, error("NOT_FOUND", "UNREGISTERED"), .unregistered(since: nil)),
        (404, error("NOT_FOUND"), .refused(reason: "NOT_FOUND")),
        (400, error("INVALID_ARGUMENT", "INVALID_ARGUMENT"), .refused(reason: "INVALID_ARGUMENT")),
        (403, error("PERMISSION_DENIED", "SENDER_ID_MISMATCH"), .refused(reason: "SENDER_ID_MISMATCH")),
        (401, error("UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"), .refused(reason: "THIRD_PARTY_AUTH_ERROR")),
        (429, error("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), .unavailable(reason: "QUOTA_EXCEEDED", afterSeconds: 60)),
        (503, error("UNAVAILABLE"), .unavailable(reason: "UNAVAILABLE", afterSeconds: nil)),
        (500, "<html>", .unavailable(reason: "status_500", afterSeconds: nil)),
        (400, #"{"error":"x"}"#, .refused(reason: "status_400")),
    ])
    func whatEachAnswerLeadsTo(status: Int, body: String, outcome: PushOutcome) async throws {
        #expect(FCMResponse(response(status, body)).outcome == outcome)
    }

    // MARK: The access token

    private func token(_ number: Int, lifetime: Int = 3599) -> Behaviour {
        .answer(200, #"{"access_token":"token-\#(number)","expires_in":\#(lifetime),"token_type":"Bearer"}"#)
    }

    private func delivery(
        _ service: ScriptedPushService, _ url: URL, _ http: OutgoingHTTP, _ clock: ManualClock
    ) throws -> FCMDelivery {
        let token = GoogleAccessToken(
            http: http, account: try Self.account.get(), url: url, authorityFile: nil, clock: { clock.now })
        return FCMDelivery(sending: service, token: token, projectID: "chargers-1234", clock: { clock.now })
    }

    @Test func oneTokenUntilFiveMinutesBeforeItExpires() async throws {
        let clock = ManualClock()
        let script = LoopbackServer.Script.each { _, number in token(number) }
        try await LoopbackServer.with(script) { server, url, http in
            let service = ScriptedPushService()
            let delivery = try delivery(service, url, http, clock)
            await withTaskGroup(of: PushOutcome.self) { group in
                for _ in 0..<20 { group.addTask { await delivery.send(notification("{}")) } }
                for await outcome in group { #expect(outcome == .delivered) }
            }
            #expect(server.requests.count == 1)
            clock.advance(bySeconds: 3298)
            _ = await delivery.send(notification("{}"))
            #expect(server.requests.count == 1)
            clock.advance(bySeconds: 1)
            _ = await delivery.send(notification("{}"))
            #expect(server.requests.count == 2)
            #expect(service.requests.last?.field("authorization") == "Bearer token-2")
            #expect(service.requests.allSatisfy { $0.path == "/v1/projects/chargers-1234/messages:send" })
        }
    }

    @Test func aRejectedTokenIsRenewedOnce() async throws {
        let rejected = ScriptedPushService.Answer.success(response(401, Self.error("UNAUTHENTICATED")))
        let script = LoopbackServer.Script.each { _, number in token(number) }
        try await LoopbackServer.with(script) { server, url, http in
            let service = ScriptedPushService([rejected])
            #expect(await (try delivery(service, url, http, ManualClock())).send(notification("{}")) == .delivered)
            #expect(service.requests.map { $0.field("authorization") } == ["Bearer token-1", "Bearer token-2"])
            let other = ScriptedPushService([rejected, rejected])
            let outcome = await (try delivery(other, url, http, ManualClock())).send(notification("{}"))
            #expect(outcome == .refused(reason: "UNAUTHENTICATED") && other.requests.count == 2)
            #expect(server.requests.count == 4)
            // The limit is the time of two messages and two requests for an access token. Each of the four may take up
            // to ten seconds.
            #expect(try delivery(other, url, http, ManualClock()).attemptSecondsMax == 40)
        }
    }

    @Test func withoutATokenNothingIsSentAndNotEveryMessageAsks() async throws {
        let clock = ManualClock()
        try await LoopbackServer.with(.always(.answer(400, #"{"error":"invalid_grant"}"#))) { server, url, http in
            let service = ScriptedPushService()
            let delivery = try delivery(service, url, http, clock)
            for _ in 0..<3 {
                #expect(
                    await delivery.send(notification("{}"))
                        == .unavailable(reason: "token_status_400", afterSeconds: 10))
            }
            #expect(server.requests.count == 1 && service.requests.isEmpty)
            clock.advance(bySeconds: 10)
            _ = await delivery.send(notification("{}"))
            #expect(server.requests.count == 2)
            // After the clock is set back, the next message must request a token at once, without waiting for the old
            // time.
            clock.advance(bySeconds: -86_400)
            _ = await delivery.send(notification("{}"))
            #expect(server.requests.count == 3)
        }
    }
}
