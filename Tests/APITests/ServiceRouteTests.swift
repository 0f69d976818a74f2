// Tests of requests that services send to the event routes, without a socket (contract, section 3, "Services").

import HTTP1
import HTTPServer
import JourneyModel
import TestSupport
import Testing

@testable import API

struct ServiceRouteTests {
    private let api = ScriptedAPI()

    private func post(
        _ body: String, as token: String = "service", to path: String = "/native/events"
    ) async -> Response {
        guard let route = api.routes.first(where: { $0.method == .post && $0.template == path }) else {
            return Response(status: .notFound)
        }
        return await route.response(
            to: Request(
                method: .post, path: path,
                fields: Fields([("Authorization", "Bearer \(token)"), ("Content-Type", "application/json")]),
                body: Array(body.utf8), id: "r1", receivedAtMilliseconds: api.clock.now.millisecondsSinceEpoch))
    }

    private static func event(_ key: String, driver: String? = nil, name: String = "chargerTargeted") -> String {
        let member = driver.map { #","driver_id":"\#($0)""# } ?? ""
        return #"{"event_id":"\#(key)","event":"\#(name)","occurred_at":"2026-11-16T12:00:00Z"\#(member)}"#
    }

    @Test func anEventNamesItsDriver() async {
        let missing = await post(Self.event("e1"))
        #expect(missing.status == .badRequest && missing.text.contains(#""pointer":"/driver_id""#))
        let unknown = await post(Self.event("e1", driver: "driver"))
        #expect(unknown.status == .notFound && unknown.text.contains(#""code":"driver_not_found""#))
        #expect(unknown.text.contains(#""pointer":"/driver_id""#))
        #expect(await post(Self.event("e1"), as: "good").status == .ok)
        let stored = await post(Self.event("e1", driver: "driver"))
        #expect(stored.status == .ok && stored.text.hasPrefix(#"{"status":"ok","event_id":"e1""#))
        #expect(await post(Self.event("e1", driver: "driver")).text.contains("already_processed"))
    }

    @Test func anAppMayNameOnlyItsOwnDriver() async {
        #expect(await post(Self.event("e1", driver: "driver"), as: "good").status == .ok)
        let other = await post(Self.event("e2", driver: "somebody"), as: "good")
        #expect(other.status == .forbidden && other.text.contains(#""pointer":"/driver_id""#))
        let batch = await post(
            #"{"events":[\#(Self.event("e3", driver: "somebody")),\#(Self.event("e4", driver: "driver"))]}"#,
            as: "good", to: "/native/events/batch")
        #expect(batch.text.contains(#""code":"forbidden""#) && batch.text.contains(#""event_id":"e4""#))
    }

    @Test func aBatchMayBeOfSeveralDrivers() async {
        _ = await post(Self.event("e1"), as: "good")
        let batch = await post(
            #"{"events":[\#(Self.event("e1", driver: "driver")),\#(Self.event("e1", driver: "no")),"#
                + "\(Self.event("e2"))]}",
            to: "/native/events/batch")
        #expect(batch.status == .ok)
        let codes = batch.text.split(separator: #""status_code":"#).dropFirst().map { $0.prefix(3) }
        #expect(codes == ["200", "404", "400"])
    }

    @Test(arguments: [("service", "driver_not_found"), ("good", "forbidden")])
    func `the errors about drivers count towards the errors that a batch lists`(_ token: String, _ code: String) async {
        let events = (0..<120).map { Self.event("e\($0)", driver: "somebody") }.joined(separator: ",")
        let batch = await post(#"{"events":[\#(events)]}"#, as: token, to: "/native/events/batch")
        for (text, count) in [
            (#""code":"\#(code)""#, 120), (#""pointer":"/driver_id""#, 100), (#""errors_omitted":1"#, 20),
        ] {
            #expect(batch.text.split(separator: text).count - 1 == count, "\(text)")
        }
    }

    @Test func theServiceHasAWindowOfItsOwn() async {
        _ = await post(Self.event("e0"), as: "good")
        for index in 1...40 {
            let response = await post(Self.event("e\(index)", driver: "driver"))
            #expect(response.status == .ok)
            #expect(response.fields.first("RateLimit") == "\"service\";r=\(6000 - index);t=60")
            #expect(response.fields.values("RateLimit-Policy").first == #""service";q=6000;w=60"#)
        }
        let mine = await post(Self.event("mine"), as: "good")
        #expect(mine.fields.first("RateLimit") == #""presession";r=28;t=60"#)
        let refused = await post("{")
        #expect(refused.fields.first("RateLimit") == #""service";r=5960;t=60"#)
    }

    @Test func aServiceDoesNothingElse() async {
        for endpoint in api.surface where endpoint.credential == .accessToken {
            let isForServices = endpoint.route.template.hasPrefix("/native/events")
            let answer = await SurfaceTests.ask(endpoint, fields: [("Authorization", "Bearer service")])
            #expect((answer.status == .forbidden) != isForServices, "\(endpoint.route.template)")
            if !isForServices { #expect(answer.text.contains(#""code":"forbidden""#)) }
        }
    }
}
