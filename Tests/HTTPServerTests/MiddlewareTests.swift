// Tests of the middleware that every request passes through: each by itself, their order, and lists in which one is
// missing.

import CoreMetrics
import PrometheusExport
import Testing

@testable import HTTP1
@testable import HTTPServer

@Suite struct MiddlewareTests {
    private static let page = "https://app.example.org"

    private func exchange(
        _ destination: Exchange.Destination = .refusal(.notFound, detail: "nothing", fields: Fields()),
        _ method: HTTP1.Method = .get, _ fields: [(String, String)] = [], hasHead: Bool = true
    ) -> Exchange {
        Exchange(
            destination: destination,
            request: Request(
                method: method, path: "/a", fields: Fields(fields), id: "", receivedAtMilliseconds: 1,
                remoteAddress: "10.0.0.1", parameters: ["n": "1"]),
            hasHead: hasHead)
    }

    private func routed(policy: String? = nil) -> Exchange.Destination {
        var route = Route(.post, "/a", bodyBytesMax: 10, responder: { _ in .response(Response(status: .ok)) })
        if let policy { route.rateLimitPolicy = Fields([("RateLimit-Policy", policy)]) }
        return .handler(RegisteredRoute(route, index: 0))
    }

    private static let guarded = Route(
        .post, "/a",
        credential: CredentialCheck(
            judge: { request in
                request.fields.first("Authorization") == "me"
                    ? .welcome(client: "me") : .refused(Response(status: .unauthorized))
            },
            responder: { request in
                .response(Response(status: request.fields.first("Authorization") == "me" ? .ok : .unauthorized))
            }))

    /// Returns the statuses of the route's responses, first with the credential, then without it.
    private func statuses(_ route: Route) async -> [Status] {
        var statuses: [Status] = []
        for fields in [[("Authorization", "me")], []] {
            statuses.append(await route.responder(exchange(routed(), .post, fields).request).response().status)
        }
        return statuses
    }

    private let outcome = ExchangeOutcome(
        status: .notFound, durationNanoseconds: 1_000_000, bytesIn: 20, bytesOut: 30)

    private var crossOrigin: CrossOriginRequests {
        get throws {
            CrossOriginRequests(crossOrigin: try #require(CrossOrigin([Self.page])), methods: "GET, POST")
        }
    }

    // MARK: - Each middleware by itself

    @Test func `a request id is the client's, if it is harmless, or a new one`() {
        var given = exchange(.noContent(Fields()), .get, [("X-Request-Id", "abc-1")])
        RequestIDs().begin(&given)
        #expect(given.request.id == "abc-1")
        var harmful = exchange(.noContent(Fields()), .get, [("X-Request-Id", "a b")])
        RequestIDs().begin(&harmful)
        #expect(RequestID.isWellFormed(harmful.request.id))
        var refused = exchange(hasHead: false)
        RequestIDs().begin(&refused)
        #expect(RequestID.isWellFormed(refused.request.id))
        #expect(refused.request.id != harmful.request.id)
    }

    @Test func `the client's address is what a trusted peer says, and the peer's before the head is complete`() throws {
        let fields = [("X-Forwarded-For", "192.0.2.7")]
        let middleware = ClientAddresses(proxies: try #require(TrustedProxies(["10.0.0.0/8"])))
        var request = exchange(.noContent(Fields()), .get, fields)
        middleware.begin(&request)
        #expect(request.request.remoteAddress == "192.0.2.7")
        #expect(request.addressGap == nil)
        var silent = exchange()
        middleware.begin(&silent)
        #expect(silent.request.remoteAddress == "10.0.0.1")
        #expect(silent.addressGap == .absent)
        var early = exchange(.noContent(Fields()), .get, fields, hasHead: false)
        middleware.begin(&early)
        #expect(early.request.remoteAddress == "10.0.0.1")
        #expect(early.addressGap == nil)
        var untrusted = exchange(.noContent(Fields()), .get, fields)
        ClientAddresses(proxies: TrustedProxies()).begin(&untrusted)
        #expect(untrusted.request.remoteAddress == "10.0.0.1")
    }

    @Test func `the access log has the route, the result and who it was, and no path`() {
        let observations = Observations()
        var exchange = exchange(routed(), .post, [("traceparent", "00-1")])
        exchange.request.id = "id"
        var response = Response(status: .notFound)
        response.principal = "driver"
        response.refusalReason = "because"
        exchange.note(response)
        AccessLog(observer: observations).end(exchange, outcome)
        #expect(observations.all.count == 1)
        let line = observations.all[0]
        #expect(line.requestID == "id")
        #expect(line.method == .post)
        #expect(line.routeTemplate == "/a")
        #expect(line.status == .notFound)
        #expect(line.durationNanoseconds == 1_000_000)
        #expect(line.bytesIn == 20 && line.bytesOut == 30)
        #expect(line.remoteAddress == "10.0.0.1")
        #expect(line.principal == "driver" && line.refusalReason == "because")
        #expect(line.traceParent == "00-1")
        AccessLog(observer: observations).end(self.exchange(hasHead: false), outcome)
        #expect(observations.all.last?.method == nil)
    }

    @Test func `a request is counted under its route, or under none`() {
        let prometheus = PrometheusMetrics()
        let route = Route(.post, "/a", responder: { _ in .response(Response(status: .ok)) })
        let counts = RequestCounts(metrics: RequestMetrics([route], prometheus))
        counts.end(exchange(routed(), .post), outcome)
        counts.end(exchange(), outcome)
        counts.end(exchange(), outcome)
        let text = prometheus.text()
        #expect(text.contains(#"dwell_http_requests_total{route="/a",method="POST",status="404"} 1"#))
        #expect(text.contains(#"dwell_http_requests_total{route="none",method="GET",status="404"} 2"#))
    }

    @Test func `a preflight of an allowed page is answered, whatever its path, and readable`() throws {
        let fields = [("Origin", Self.page), ("Access-Control-Request-Method", "POST")]
        var preflight = exchange(routed(), .options, fields)
        try crossOrigin.begin(&preflight)
        guard case .noContent(let allowed) = preflight.destination else {
            Issue.record("no preflight")
            return
        }
        #expect(allowed.first("Access-Control-Allow-Methods") == "GET, POST")
        #expect(preflight.request.parameters.isEmpty)
        var response = Response(status: .noContent, fields: allowed)
        try crossOrigin.respond(&response, to: preflight)
        #expect(response.fields.first("Access-Control-Allow-Origin") == Self.page)

        var other = exchange(routed(), .options, [("Origin", "https://evil.example"), fields[1]])
        try crossOrigin.begin(&other)
        #expect(other.placed != nil)
        var unreadable = Response(status: .ok)
        try crossOrigin.respond(&unreadable, to: other)
        #expect(unreadable.fields.first("Access-Control-Allow-Origin") == nil)
        #expect(unreadable.fields.first("Vary") == "Origin")
    }

    @Test func `content is limited to what the route takes, or to what is worth discarding`() {
        var exchange = exchange(routed())
        SizeLimits().begin(&exchange)
        #expect(exchange.request.bodyBytesMax == 10)
        var unrouted = self.exchange()
        SizeLimits().begin(&unrouted)
        #expect(unrouted.request.bodyBytesMax == 64 << 10)
    }

    @Test func `a credential is checked at the head and before the handler, and without the check nobody is served`()
        async throws
    {
        var route = Self.guarded
        #expect(route.judge == nil)
        #expect(await statuses(route) == [.internalServerError, .internalServerError])
        Credentials().prepare(&route)
        #expect(await statuses(route) == [.ok, .unauthorized])
        let judge = try #require(route.judge)
        guard case .welcome("me") = await judge(exchange(routed(), .post, [("Authorization", "me")]).request),
            case .refused(let response) = await judge(exchange(routed(), .post).request)
        else {
            Issue.record("judged wrongly at the head")
            return
        }
        #expect(response.status == .unauthorized)
        var open = Route(.get, "/a", responder: { _ in .response(Response(status: .ok)) })
        Credentials().prepare(&open)
        #expect(open.judge == nil)
        #expect(await statuses(open) == [.ok, .ok])
    }

    @Test func `a route's policy is on each of its responses, the caller's quotas where they are known`() {
        var response = Response(status: .contentTooLarge)
        RateLimitFields().respond(&response, to: exchange(routed(policy: "q=1")))
        #expect(response.fields.values("RateLimit-Policy") == ["q=1"])
        #expect(response.fields.values("RateLimit").isEmpty)
        var counted = Response(status: .ok)
        counted.rateLimit = "r=0;t=5"
        RateLimitFields().respond(&counted, to: exchange(routed(policy: "q=1")))
        #expect(counted.fields.values("RateLimit") == ["r=0;t=5"])
        #expect(counted.fields.values("RateLimit-Policy") == ["q=1"])
        var unlimited = Response(status: .ok)
        RateLimitFields().respond(&unlimited, to: exchange(routed()))
        #expect(unlimited.fields.isEmpty)
        var unrouted = Response(status: .notFound)
        RateLimitFields().respond(&unrouted, to: exchange())
        #expect(unrouted.fields.isEmpty)
    }

    @Test func `a refusal is rendered with its id, fields and sentence, a handler's response is left alone`() {
        let problems = Problems { refused in
            var fields = refused.fields
            fields.append("X-Refused", "yes")
            return Response(
                status: refused.status, fields: fields,
                body: .bytes(Array("\(refused.requestID) \(refused.detail)".utf8)))
        }
        var exchange = exchange()
        exchange.request.id = "id"
        exchange.refusalDetail = "nothing here"
        var response = Response(status: .notFound, fields: Fields([("Retry-After", "1")]))
        problems.respond(&response, to: exchange)
        #expect(response.status == .notFound)
        #expect(response.fields.first("Retry-After") == "1")
        #expect(response.fields.first("X-Refused") == "yes")
        guard case .bytes(let body) = response.body else {
            Issue.record("no content")
            return
        }
        #expect(String(decoding: body, as: UTF8.self) == "id nothing here")

        var handled = Response(status: .notFound)
        problems.respond(&handled, to: self.exchange(routed()))
        #expect(handled.fields.first("X-Refused") == nil)
    }

    // MARK: - The list of middleware

    private func list(
        _ crossOrigin: CrossOrigin?, proxies: TrustedProxies = TrustedProxies(),
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) -> MiddlewareList {
        var configuration = ServerConfiguration(addresses: [])
        configuration.crossOrigin = crossOrigin
        configuration.trustedProxies = proxies
        return MiddlewareList(
            configuration, methods: "GET", observer: Observations(), metrics: RequestMetrics([Self.guarded], metrics),
            refusals: { Response(status: $0.status, fields: $0.fields, body: .bytes(Array($0.detail.utf8))) })
    }

    @Test func `the list has every concern in its order`() {
        let all = list(CrossOrigin([Self.page])).middleware.map { "\(type(of: $0))" }
        #expect(
            all == [
                "RequestIDs", "ClientAddresses", "AccessLog", "RequestCounts", "CrossOriginRequests", "SizeLimits",
                "Credentials", "RateLimitFields", "Problems",
            ])
        #expect(list(nil).middleware.map { "\(type(of: $0))" } == all.filter { $0 != "CrossOriginRequests" })
    }

    @Test func `a response passes the list backwards: the fields of web pages are on problems too`() {
        var exchange = exchange(.refusal(.notFound, detail: "nothing", fields: Fields()), .get, [("Origin", Self.page)])
        exchange.refusalDetail = "nothing"
        var response = Response(status: .notFound)
        let list = list(CrossOrigin([Self.page]))
        list.begin(&exchange)
        list.respond(&response, to: exchange)
        #expect(response.fields.first("Access-Control-Allow-Origin") == Self.page)
    }

    /// The middleware do not depend on each other: without one of them, only its own effect is missing.
    @Test(arguments: 0..<9) func `each can be left out by itself`(leftOut: Int) async throws {
        let prometheus = PrometheusMetrics()
        var list = list(
            CrossOrigin([Self.page]), proxies: try #require(TrustedProxies(["10.0.0.0/8"])), metrics: prometheus)
        try #require(list.middleware.count == 9)
        list.middleware.remove(at: leftOut)
        var exchange = exchange(
            routed(policy: "q=1"), .post,
            [("X-Request-Id", "mine"), ("Origin", Self.page), ("X-Forwarded-For", "192.0.2.7")])
        list.begin(&exchange)
        #expect((exchange.request.id == "mine") == (leftOut != 0))
        #expect((exchange.request.remoteAddress == "192.0.2.7") == (leftOut != 1))
        #expect((exchange.request.bodyBytesMax == 10) == (leftOut != 5))
        #expect(await statuses(list.prepared([Self.guarded])[0]).contains(.ok) == (leftOut != 6))
        var response = Response(status: .ok)
        exchange.refusalDetail = "too long"
        list.respond(&response, to: exchange)
        #expect((response.fields.first("Access-Control-Allow-Origin") == Self.page) == (leftOut != 4))
        #expect((response.fields.first("RateLimit-Policy") != nil) == (leftOut != 7))
        guard case .bytes(let body) = response.body else {
            Issue.record("no content")
            return
        }
        #expect((String(decoding: body, as: UTF8.self) == "too long") == (leftOut != 8))
        list.end(exchange, outcome)
        let observer = list.middleware.compactMap { ($0 as? AccessLog)?.observer as? Observations }.first
        #expect(observer?.all.count == (leftOut == 2 ? nil : 1))
        let count = #"dwell_http_requests_total{route="/a",method="POST",status="404"} 1"#
        #expect(prometheus.text().contains(count) == (leftOut != 3))
    }
}
