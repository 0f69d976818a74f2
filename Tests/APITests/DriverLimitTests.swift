// Tests of a driver's rate limits, for all routes. A request over a limit gets 429 and the RateLimit fields.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting
import TestSupport
import Testing

@testable import API

@Suite struct DriverLimitTests {
    private static let surface = ScriptedAPI(limits: .off).surface.map { SurfaceTests.Row(endpoint: $0) }
    private static let reading: [HTTP1.Method] = [.get, .head]
    private static let driverClasses = Set(RateLimitClass.ofDrivers).subtracting([.refusals])

    private static func limits(of row: SurfaceTests.Row) -> RateLimits {
        func limit(_ limitClass: RateLimitClass) -> Int {
            row.endpoint.limits.contains(limitClass) && limitClass != .auth ? 1 : 0
        }
        return RateLimits(
            sessionEvents: limit(.sessionEvents), preSessionEvents: limit(.preSessionEvents),
            serviceEvents: limit(.serviceEvents), auth: 0,
            registrations: limit(.registrations), devices: limit(.devices), account: limit(.account),
            reads: limit(.reads), pings: limit(.pings), purchases: limit(.purchases), notifications: 0)
    }

    @Test(arguments: surface.filter { !reading.contains($0.endpoint.route.method) })
    func whatChangesSomethingHasAWindow(row: SurfaceTests.Row) {
        // The only operator route that uses POST is a search. It changes nothing, so it needs no limit.
        #expect(!row.endpoint.limits.isEmpty || row.endpoint.credential == .operatorToken)
        guard row.endpoint.credential == .accessToken else { return }
        #expect(!Self.driverClasses.isDisjoint(with: row.endpoint.limits), "no window of the driver's")
    }

    /// A route for reading needs a limit, unless it answers from memory.
    @Test(arguments: surface.filter { reading.contains($0.endpoint.route.method) })
    func whatAsksTheDatabaseHasAWindow(row: SurfaceTests.Row) {
        guard row.endpoint.credential == .accessToken else { return }
        let request = SurfaceTests.request(row.endpoint, fields: [("Authorization", "Bearer good")])
        if case .response = row.endpoint.route.prepared.responder(request) { return }
        #expect(!Self.driverClasses.isDisjoint(with: row.endpoint.limits))
    }

    /// The routes for events are left out, because their limit counts events instead of requests. ratelimit.bats tests
    /// them.
    @Test(arguments: surface.filter { !driverClasses.isDisjoint(with: $0.endpoint.limits) })
    func oneMoreThanTheLimitIs429(row: SurfaceTests.Row) async throws {
        guard !row.endpoint.limits.contains(.sessionEvents) else { return }
        let limitClass = try #require(row.endpoint.limits.last)
        let api = ScriptedAPI(limits: Self.limits(of: row))
        let endpoint = try #require(
            api.surface.first { SurfaceTests.Row(endpoint: $0).testDescription == row.testDescription })
        let token = endpoint.credential == .serviceToken ? "service" : "good"
        // A request with a rejected token counts against no driver's limit. Its response still has the RateLimit-Policy
        // field.
        let stranger = await SurfaceTests.ask(endpoint, fields: [("Authorization", "Bearer bad")])
        #expect(stranger.status == .unauthorized && stranger.fields.first("RateLimit") == nil)
        #expect(stranger.fields.first("RateLimit-Policy") == "\"\(limitClass.rawValue)\";q=1;w=60")
        let first = await SurfaceTests.ask(endpoint, fields: [("Authorization", "Bearer \(token)")])
        #expect(first.status != .tooManyRequests)
        #expect(first.fields.first("RateLimit")?.hasPrefix("\"\(limitClass.rawValue)\";r=0;t=") == true)
        let asked = api.signIn.asked
        let second = await SurfaceTests.ask(endpoint, fields: [("Authorization", "Bearer \(token)")])
        #expect(second.status == .tooManyRequests && second.text.contains(#""code":"rate_limited""#))
        #expect(second.fields.first("Retry-After").flatMap { Int($0) }.map { (1...60).contains($0) } == true)
        #expect(second.fields.first("RateLimit")?.hasPrefix("\"\(limitClass.rawValue)\";r=0;t=") == true)
        #expect(second.fields.first("RateLimit-Policy") == "\"\(limitClass.rawValue)\";q=1;w=60")
        #expect(second.fields.first("Cache-Control") == "no-store")
        #expect(api.signIn.asked == asked)
    }

    @Test func theWindowsOfADriverAreCountedApart() async {
        let api = ScriptedAPI(limits: RateLimits(auth: 0, registrations: 1, devices: 1, account: 1, reads: 1, pings: 1))
        func status(_ method: String, _ path: String, _ body: String = "") async -> Int {
            await api.send(method, path, body, type: body.isEmpty ? nil : "application/json").status.code
        }
        #expect(await status("POST", "/native/sessions", #"{"session_id":"s-1"}"#) == 201)
        #expect(await status("POST", "/native/sessions", #"{"session_id":"s-2"}"#) == 429)
        #expect(await status("DELETE", "/native/devices/t") == 204)
        #expect(await status("DELETE", "/native/devices/t") == 429)
        #expect(await status("POST", "/auth/logout") == 204)
        #expect(await status("POST", "/auth/logout") == 429)
        #expect(await status("GET", "/auth/me") == 200)
        #expect(await status("GET", "/native/sessions") == 429)
        #expect(await status("POST", "/native/background-ping") == 204)
        #expect(await status("POST", "/v1/charging-sessions/background-ping") == 429)
        #expect(await status("GET", "/native/config") == 200)
    }

    @Test func `a driver has a limited number of reads under way, unless reads are not limited`() async throws {
        func response(to driver: String, _ limit: DriverLimit) async -> Response {
            let respond = limit.limited(.reads) { _, _ in Response(status: .noContent) }
            let request = Request(
                method: .get, path: "/native/session", id: "r1",
                receivedAtMilliseconds: Moment.sample.millisecondsSinceEpoch)
            return await respond(request, Caller(driver: DriverID(driver))).response()
        }
        let limit = DriverLimit(admission: LocalRateLimiter(limits: RateLimits()))
        let unlimited = DriverLimit(admission: LocalRateLimiter(limits: .off))
        var underWay: [RequestUnderWay] = []
        for _ in 0..<RequestsUnderWay.perDriverMax {
            underWay.append(try limit.reads.begin(DriverID("greedy")))
            underWay.append(try unlimited.reads.begin(DriverID("greedy")))
        }
        let refused = await response(to: "greedy", limit)
        #expect(refused.status == .serviceUnavailable && refused.fields.first("Retry-After") == "1")
        #expect(refused.rateLimit?.hasPrefix("\"reads\";r=599;") == true)
        #expect(await response(to: "other", limit).status == .noContent)
        #expect(await response(to: "greedy", unlimited).status == .noContent)
        underWay.removeFirst()
        for _ in 0..<2 { #expect(await response(to: "greedy", limit).status == .noContent) }
    }

    @Test func anAddressAndADriverAreToldInOneField() async {
        let api = ScriptedAPI(limits: RateLimits(auth: 5, reads: 7))
        let answer = await api.send("GET", "/auth/me", "", type: nil)
        #expect(answer.fields.first("RateLimit-Policy") == #""auth";q=5;w=60, "reads";q=7;w=60"#)
        #expect(answer.fields.values("RateLimit") == [#""auth";r=4;t=60, "reads";r=6;t=60"#])
    }
}
