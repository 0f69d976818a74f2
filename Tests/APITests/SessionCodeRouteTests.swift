// Tests of the routes of verification codes, without a socket (contract, section 3, "Verification codes").

import HTTP1
import HTTPServer
import JourneyModel
import TestSupport
import Testing

@testable import API

struct SessionCodeRouteTests {
    private let api = ScriptedAPI()

    private func post(
        _ action: String, session: String = "s", as token: String, body: String = ""
    ) async -> Response {
        let template = "/native/sessions/{session_id}/\(action)"
        guard let route = api.routes.first(where: { $0.method == .post && $0.template == template }) else {
            return Response(status: .notFound)
        }
        return await route.response(
            to: Request(
                method: .post, path: "/native/sessions/\(session)/\(action)",
                fields: Fields([("Authorization", "Bearer \(token)"), ("Content-Type", "application/json")]),
                body: Array(body.utf8), id: "r1",
                receivedAtMilliseconds: api.clock.now.millisecondsSinceEpoch, parameters: ["session_id": session]))
    }

    @Test func aServiceGetsACodeOfSixDigits() async {
        let answer = await post("verification-code", as: "service")
        #expect(answer.status == .created)
        #expect(answer.text.firstMatch(of: /"code":"[0-9]{6}"/) != nil)
        #expect(answer.text.contains(#""tries":5"#))
        #expect(answer.fields.first("Cache-Control") == "no-store")
        #expect(answer.fields.first("RateLimit") == #""service";r=5999;t=60"#)
        let other = await post("verification-code", session: "other", as: "service")
        #expect(other.status == .notFound && other.text.contains(#""code":"session_not_found""#))
        let ended = await post("verification-code", session: "ended", as: "service")
        #expect(ended.status.code == 409 && ended.text.contains(#""code":"session_not_active""#))
        #expect(await post("verification-code", as: "good").status == .forbidden)
    }

    @Test func theRightCodeIsStoredOnceAndAnsweredTwice() async {
        let first = await post("verify", as: "good", body: #"{"code":"123456"}"#)
        #expect(first.status == .ok)
        #expect(first.text.hasPrefix(##"{"status":"ok","event_id":"§verification/s""##))
        let second = await post("verify", as: "good", body: #"{"code":"123456"}"#)
        #expect(second.text.hasPrefix(#"{"status":"already_processed""#))
        #expect(second.fields.first("Idempotent-Replayed") == "true")
    }

    @Test(
        arguments: [
            ("s", "{}", 400, "validation_failed"), ("s", #"{"code":"12345"}"#, 400, "validation_failed"),
            ("s", #"{"code":"12345x"}"#, 400, "validation_failed"),
            ("s", #"{"code":123456}"#, 400, "validation_failed"),
            ("wrong", #"{"code":"123456"}"#, 400, "wrong_code"),
            ("ended", #"{"code":"123456"}"#, 409, "code_unavailable"),
        ] as [(String, String, Int, String)])
    func aRefusalNamesTheMember(_ session: String, _ body: String, _ status: Int, _ code: String) async {
        let answer = await post("verify", session: session, as: "good", body: body)
        #expect(answer.status.code == status)
        #expect(answer.text.contains("\"code\":\"\(code)\"") && answer.text.contains(#""pointer":"/code""#))
    }

    @Test func anotherDriversSessionDoesNotExist() async {
        let answer = await post("verify", session: "other", as: "good", body: #"{"code":"123456"}"#)
        #expect(answer.status == .notFound && answer.text.contains(#""code":"session_not_found""#))
        #expect(await post("verify", as: "service", body: #"{"code":"123456"}"#).status == .forbidden)
    }
}
