// Tests the exact request to the webhook, and the meaning of each response.

import Foundation
import Identity
import JourneyModel
import Logging
import Secrets
import Synchronization
import TestSupport
import Testing

@testable import Outbound

func code(_ digits: String = "012345", phone: String = "+4915112345678", issuedAt: Moment = .sample) -> OutgoingCode {
    OutgoingCode(
        phone: Secret(phone), code: Secret(digits), issuedAt: issuedAt, expiresAt: issuedAt.advanced(bySeconds: 600))
}

@Suite(.timeLimit(.minutes(1))) struct CodeWebhookTests {
    /// The expected signature is the HMAC-SHA256 of `1794859200.` followed by the body. Another program computed it.
    @Test func theCallAsTheContractWritesIt() async throws {
        try await LoopbackServer.with(.always(.answer(204))) { server, url, http in
            let webhook = CodeWebhook(http: http, url: url, secret: Secret("a webhook secret"))
            #expect(await webhook.post(code(), at: .sample) == .delivered)
            let request = try #require(server.requests.first)
            #expect(request.head.hasPrefix("POST /start HTTP/1.1\r\n"))
            #expect(request.field("Content-Type") == "application/json")
            #expect(request.text == #"{"phone":"+4915112345678","code":"012345","expires_in":600}"#)
            #expect(
                request.field("X-Dwell-Signature")
                    == "t=1794859200,v1=e5627ff4f478e57dcd543bb73409f6d30f9c0fcb86c5e7ce6ced50a4aeef32b0")
        }
    }

    @Test(arguments: [(0, 600), (1_000, 599), (1_001, 598), (599_999, 1), (599_001, 1)])
    func lateMessagesPromiseLess(milliseconds: Int64, seconds: Int) {
        let body = CodeWebhook.body(code(), at: Moment.sample.advanced(byMilliseconds: milliseconds))
        #expect(String(decoding: body, as: UTF8.self).hasSuffix(#""expires_in":\#(seconds)}"#))
    }

    @Test(arguments: [
        (Behaviour.answer(200, "{}"), CodeWebhook.Outcome.delivered), (.answer(202), .delivered),
        (.answer(400), .refused(status: 400)), (.answer(401), .refused(status: 401)),
        (.answer(404), .refused(status: 404)),
        (.answer(408), .tryAgain(reason: "status_408")), (.answer(429), .tryAgain(reason: "status_429")),
        (.answer(500), .tryAgain(reason: "status_500")), (.answer(503), .tryAgain(reason: "status_503")),
        (.answer(302, fields: "Location: /elsewhere\r\n"), .tryAgain(reason: "redirected")),
        (.text(""), .tryAgain(reason: "unreachable")), (.endless, .tryAgain(reason: "answer_too_long")),
    ])
    func whatAnAnswerMeans(behaviour: Behaviour, outcome: CodeWebhook.Outcome) async throws {
        try await LoopbackServer.with(.always(behaviour)) { _, url, http in
            let webhook = CodeWebhook(http: http, url: url, secret: Secret("a webhook secret"))
            #expect(await webhook.post(code(), at: .sample) == outcome)
        }
    }
}
