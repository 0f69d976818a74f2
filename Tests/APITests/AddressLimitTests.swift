// Tests of the rate limit of the sign-in routes, which counts the requests of each client address. A request is counted
// before anything in it is checked.

import HTTP1
import HTTPServer
import RateLimiting
import Testing

@testable import API

@Suite struct AddressLimitTests {
    private func api(_ limit: Int) -> ScriptedAPI { ScriptedAPI(limits: RateLimits(auth: limit)) }

    @Test func oneMoreThanTheLimitIs429WhateverTheRouteAndTheCredential() async {
        let api = api(3)
        #expect(await api.send("GET", "/auth/me", "", type: nil).status == .ok)
        #expect(await api.send("POST", "/auth/refresh", "{").status == .badRequest)
        #expect(await api.send("GET", "/auth/me", "", type: nil, token: "bad").status == .unauthorized)
        let refused = await api.send("POST", "/auth/otp/start", #"{"phone":"+491511234567"}"#)
        #expect(refused.status.code == 429 && refused.text.contains(#""code":"rate_limited""#))
        #expect(refused.fields.first("Retry-After").flatMap { Int($0) }.map { (1...60).contains($0) } == true)
        #expect(refused.fields.first("RateLimit-Policy") == #""auth";q=3;w=60"#)
        #expect(refused.fields.first("RateLimit")?.hasPrefix(#""auth";r=0;t="#) == true)
        #expect(api.signIn.asked == ["user"])
    }

    @Test func theSameRequestIDIsChargedAgain() async {
        let api = api(2)
        for status in [200, 200, 429, 429] {
            #expect(await api.send("GET", "/auth/me", "", type: nil, requestID: "same").status.code == status)
        }
    }

    @Test func addressesAreCountedApartAndANetworkOfIPv6Together() async {
        let api = api(1)
        func status(_ address: String) async -> Int {
            await api.send("GET", "/auth/me", "", type: nil, address: address).status.code
        }
        #expect(await status("192.0.2.1") == 200)
        #expect(await status("192.0.2.1") == 429)
        #expect(await status("192.0.2.2") == 200)
        #expect(await status("2001:db8:0:1::1") == 200)
        #expect(await status("2001:db8:0:1:ffff::2") == 429)
        #expect(await status("2001:db8:0:2::1") == 200)
        #expect(await status("::ffff:192.0.2.1") == 429)
        // Behind a Unix socket, a request without a forwarded address has no client address. All such requests share
        // one limit.
        #expect(await status("") == 200)
        #expect(await status("") == 429)
    }

    @Test func otherRoutesAreNotCounted() async {
        let api = api(1)
        for _ in 0..<3 {
            let device = await api.send("DELETE", "/native/devices/t", "", type: nil)
            #expect(device.status == .noContent)
            #expect(device.fields.first("RateLimit-Policy") == #""devices";q=10;w=60"#)
        }
        let events = await api.send("POST", "/native/events", "{}")
        #expect(events.fields.first("RateLimit-Policy") == #""session";q=60;w=60, "presession";q=30;w=60"#)
        #expect(events.fields.first("RateLimit")?.contains("auth") == false)
        #expect(await api.send("GET", "/auth/me", "", type: nil).status == .ok)
    }

    @Test func `requests beyond the limit are listed for operators`() async {
        let api = api(1)
        for path in ["/auth/me", "/auth/me", "/auth/me"] { _ = await api.send("GET", path, "", type: nil) }
        _ = await api.send("POST", "/auth/otp/start", #"{"phone":"+491511234567"}"#)
        let listed = await api.ask(
            "/ops/refusals?status=429", fields: [("Authorization", "Bearer \(ScriptedAPI.operatorToken)")])
        #expect(listed.text.contains(#"{"route":"/auth/me","status":429,"count":2"#), "\(listed.text)")
        #expect(listed.text.contains(#"{"route":"/auth/otp/start","status":429,"count":1"#))
    }

    @Test func aLimitOfNothingIsNone() async {
        let api = api(0)
        for _ in 0..<50 {
            let answer = await api.send("GET", "/auth/me", "", type: nil)
            #expect(answer.status == .ok && answer.fields.first("RateLimit")?.contains("auth") == false)
        }
    }

    @Test func shippedClientsAreToldInTheirForm() async {
        let api = api(1)
        _ = await api.send("GET", "/api/auth/me", "", type: nil)
        #expect(await api.send("GET", "/api/auth/me", "", type: nil).text.hasPrefix(#"{"success":false,"#))
    }
}
