// Tests of the problem documents for requests that reach no handler (contract, sections 5 and 6).

import HTTP1
import HTTPServer
import JourneyModel
import Testing

@testable import API

struct RefusedRequestTests {
    private func refuse(_ status: Status, path: String, fields: [(String, String)] = []) -> Response {
        ScriptedAPI().refusals(
            RefusedRequest(status: status, detail: "No.", requestID: "r1", path: path, fields: Fields(fields)))
    }

    @Test func `the body repeats the seconds of Retry-After`() throws {
        let response = refuse(.serviceUnavailable, path: "/native/events", fields: [("Retry-After", "7")])
        #expect(response.fields.values("Retry-After") == ["7"])
        #expect(response.text.contains(#""retry_after":7"#))
        #expect(!refuse(.notFound, path: "/").text.contains("retry_after"))
    }

    @Test(arguments: ["/api/auth/send-code", "/api/drivers/profile", "/api/push/register-token"])
    func `shipped clients read success`(path: String) {
        #expect(refuse(.contentTooLarge, path: path).text.contains(#""success":false"#))
    }

    @Test(arguments: ["/native/events", "/auth/me", "/api/authors", ""])
    func `other problems have no member success`(path: String) {
        #expect(!refuse(.contentTooLarge, path: path).text.contains("success"))
    }
}
