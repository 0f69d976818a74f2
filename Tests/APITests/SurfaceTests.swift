// Sends every kind of credential to every route. The tests are generated from the list of routes, so a new route is
// included automatically. A new route whose credential is in the body fails here until `bodies` has an example for it.

import HTTP1
import HTTPServer
import PrometheusExport
import RateLimiting
import Testing

@testable import API

@Suite struct SurfaceTests {
    private static let api = ScriptedAPI(limits: .off)
    private static let surface = api.surface.map { Row(endpoint: $0) }

    struct Row: Sendable, CustomTestStringConvertible {
        var endpoint: Endpoint
        var testDescription: String { "\(endpoint.route.method.rawValue) \(endpoint.route.template)" }
    }

    /// For each route that checks a credential in the body: a body with a good credential and a body with a bad one.
    private static let bodies: [String: (good: String, bad: String)] = [
        "/auth/apple": (#"{"identity_token":"good","nonce":"n"}"#, #"{"identity_token":"bad","nonce":"n"}"#),
        "/api/auth/apple": (#"{"identity_token":"good","nonce":"n"}"#, #"{"identity_token":"bad","nonce":"n"}"#),
        "/apple/notifications": (#"{"payload":"good"}"#, #"{"payload":"bad"}"#),
        "/apple/store-notifications": (#"{"signedPayload":"good"}"#, #"{"signedPayload":"bad"}"#),
        "/auth/otp/verify": (
            #"{"phone":"+491511234567","code":"123456"}"#, #"{"phone":"+491511234567","code":"654321"}"#
        ),
        "/auth/refresh": (#"{"refresh_token":"good"}"#, #"{"refresh_token":"bad"}"#),
        "/v1/auth/otp/verify": (
            #"{"phone":"+491511234567","code":"123456"}"#, #"{"phone":"+491511234567","code":"654321"}"#
        ),
        "/v1/auth/refresh": (#"{"refresh_token":"good"}"#, #"{"refresh_token":"bad"}"#),
        "/api/auth/verify-code": (
            #"{"phoneNumber":"+491511234567","code":"123456"}"#, #"{"phoneNumber":"+491511234567","code":"654321"}"#
        ),
    ]

    /// The bearer token is checked as soon as the head is complete, before any byte of the body is read.
    @Test(arguments: surface.filter { [.accessToken, .operatorToken].contains($0.endpoint.credential) })
    func theCredentialIsJudgedAtTheHead(row: Row) async throws {
        let judge = try #require(row.endpoint.route.prepared.judge)
        let isOperators = row.endpoint.credential == .operatorToken
        for fields in Self.badBearers {
            guard case .refused(let answer) = await judge(Self.request(row.endpoint, fields: fields)) else {
                Issue.record("accepted with \(fields)")
                continue
            }
            try Self.expectRefused(answer, "\(fields)")
        }
        let token = isOperators ? ScriptedAPI.operatorToken : "good"
        let request = Self.request(row.endpoint, fields: [("Authorization", "Bearer \(token)")])
        guard case .welcome(let client) = await judge(request) else {
            Issue.record("refused with a good token")
            return
        }
        #expect(client == (isOperators ? nil : "driver"))
    }

    @Test(arguments: surface.filter { $0.endpoint.credential == .accessToken })
    func anAccessTokenIsWanted(row: Row) async throws {
        for fields in Self.badBearers {
            let answer = await Self.ask(row.endpoint, fields: fields)
            try Self.expectRefused(answer, "\(fields)")
            #expect(answer.fields.first("WWW-Authenticate")?.hasPrefix("Bearer realm=\"dwell\"") == true)
        }
        #expect(await Self.ask(row.endpoint, fields: [("Authorization", "Bearer good")]).status != .unauthorized)
        let revoked = ScriptedAPI(limits: .off)
        revoked.tokens.revoke()
        let endpoint = try #require(
            revoked.surface.first { Row(endpoint: $0).testDescription == row.testDescription })
        try Self.expectRefused(await Self.ask(endpoint, fields: [("Authorization", "Bearer good")]), "revoked")
    }

    /// If a request's content arrives after its head, the server calls the judge and then the route. Both check the
    /// token, but the metrics must count it once.
    @Test(arguments: surface.filter { $0.endpoint.credential == .accessToken })
    func eachTokenIsCountedOnce(row: Row) async throws {
        let api = ScriptedAPI(limits: .off)
        let endpoint = try #require(api.surface.first { Row(endpoint: $0).testDescription == row.testDescription })
        let judge = try #require(endpoint.route.prepared.judge)
        let good = Self.request(endpoint, fields: [("Authorization", "Bearer good")])
        guard case .welcome = await judge(good) else {
            Issue.record("refused with a good token")
            return
        }
        _ = await endpoint.route.response(to: good)
        guard case .refused = await judge(Self.request(endpoint, fields: [("Authorization", "Bearer bad")])) else {
            Issue.record("accepted with a bad token")
            return
        }
        let text = api.metrics.text()
        #expect(text.contains("dwell_access_tokens_total{result=\"accepted\"} 1\n"))
        #expect(text.contains("dwell_access_tokens_total{result=\"refused\"} 1\n"))
    }

    /// OperatorTests tests the tokens that these routes accept.
    @Test(arguments: surface.filter { $0.endpoint.credential == .operatorToken })
    func anOperatorsTokenIsWanted(row: Row) async throws {
        for fields in Self.badBearers {
            try Self.expectRefused(await Self.ask(row.endpoint, fields: fields), "\(fields)")
        }
        #expect(await Self.ask(row.endpoint, fields: [("Authorization", "Bearer good")]).status == .forbidden)
    }

    /// A driver's valid token is rejected with 403.
    @Test(arguments: surface.filter { $0.endpoint.credential == .serviceToken })
    func aServicesTokenIsWanted(row: Row) async throws {
        for fields in Self.badBearers {
            try Self.expectRefused(await Self.ask(row.endpoint, fields: fields), "\(fields)")
        }
        #expect(await Self.ask(row.endpoint, fields: [("Authorization", "Bearer good")]).status == .forbidden)
        #expect(await Self.ask(row.endpoint, fields: [("Authorization", "Bearer service")]).status == .created)
    }

    @Test func everyCredentialHasItsTests() {
        let tested: [Credential] = [.none, .accessToken, .operatorToken, .serviceToken, .singleToken] + Self.inTheBody
        #expect(Set(tested) == Set(Credential.allCases))
    }

    /// A route that needs no bearer token ignores the Authorization field, so that an invalid field cannot prevent a
    /// sign-in.
    @Test(
        arguments: surface.filter {
            ![.accessToken, .operatorToken, .serviceToken, .singleToken].contains($0.endpoint.credential)
        })
    func aBearerTokenIsNotLookedAt(row: Row) async throws {
        let body = Self.bodies[row.endpoint.route.template]?.good ?? #"{"phone":"+491511234567"}"#
        let without = await Self.ask(row.endpoint, fields: [], body: body)
        #expect(without.status == .ok)
        for fields in Self.badBearers {
            #expect(await Self.ask(row.endpoint, fields: fields, body: body).status == without.status)
        }
    }

    private static let inTheBody: [Credential] = [
        .identityToken, .oneTimeCode, .refreshToken, .appleNotice, .storeNotification,
    ]

    @Test(arguments: surface.filter { inTheBody.contains($0.endpoint.credential) })
    func aCredentialInTheBodyIsJudged(row: Row) async throws {
        let bodies = try #require(Self.bodies[row.endpoint.route.template], "an example is missing here")
        try Self.expectRefused(await Self.ask(row.endpoint, fields: [], body: bodies.bad), bodies.bad)
    }

    @Test(arguments: surface.filter { $0.endpoint.credential == .singleToken })
    func aSingleTokenIsJudgedByTheService(row: Row) async throws {
        for fields in Self.badBearers {
            try Self.expectRefused(await Self.ask(row.endpoint, fields: fields), "\(fields)")
        }
        #expect(await Self.ask(row.endpoint, fields: [("Authorization", "Bearer good")]).status == .ok)
    }

    @Test func noTemplateIsListedTwice() {
        let names = Self.surface.map(\.testDescription)
        #expect(Set(names).count == names.count)
    }

    /// No shared cache may store a response to an authenticated request.
    @Test(arguments: surface.filter { $0.endpoint.credential != .none }) func nothingOfADriversIsKept(row: Row) async {
        let body = Self.bodies[row.endpoint.route.template]?.good ?? ""
        let answer = await Self.ask(row.endpoint, fields: [("Authorization", "Bearer good")], body: body)
        let control = answer.fields.first("Cache-Control") ?? ""
        let isEvent = row.endpoint.route.template.contains("event")
        #expect(isEvent || control == "no-store" || control.hasPrefix("private"), "\(control)")
    }

    /// Only a token that is not in the cache starts a task.
    @Test(arguments: surface.filter { $0.endpoint.credential == .accessToken && $0.endpoint.limits.isEmpty })
    func aKnownTokenIsAnsweredFromMemory(row: Row) async {
        let respond = { row.endpoint.route.prepared.responder(Self.request(row.endpoint, fields: $0)) }
        guard case .response(let good) = respond([("Authorization", "Bearer good")]),
            case .response(let missing) = respond([]), case .work(let work) = respond([("Authorization", "Bearer bad")])
        else {
            Issue.record("a task is started where memory is enough, or none where it is not")
            return
        }
        #expect(good.status == .ok)
        #expect(missing.status == .unauthorized)
        #expect(await work().status == .unauthorized)
    }

    @Test(arguments: surface.filter { $0.endpoint.limits == RateLimitClass.ofEvents })
    func aRejectedEventStartsNoTask(row: Row) throws {
        let endpoint = try #require(
            ScriptedAPI().surface.first { Row(endpoint: $0).testDescription == row.testDescription })
        let respond = { endpoint.route.prepared.responder(Self.request(endpoint, fields: $0, body: $1)) }
        let good = [("Authorization", "Bearer good")]
        guard case .response(let missing) = respond([], "{}"), case .response(let malformed) = respond(good, "{")
        else {
            Issue.record("a task is started for a rejection")
            return
        }
        #expect(missing.status == .unauthorized)
        #expect(missing.rateLimit == nil)
        #expect(malformed.status == .badRequest)
        #expect(malformed.rateLimit != nil)
        #expect(malformed.principal == "driver")
    }

    private static let badBearers: [[(String, String)]] = [
        [], [("Authorization", "Bearer bad")], [("Authorization", "Basic good")], [("Authorization", "Bearer")],
        [("Authorization", "Bearer good"), ("Authorization", "Bearer good")], [("Authorization", "good")],
    ]

    private static func expectRefused(_ answer: Response, _ what: String) throws {
        #expect(answer.status == .unauthorized, "\(what)")
        #expect(answer.text.contains(#""code":"unauthorized""#), "\(what)")
        #expect(answer.fields.first("Cache-Control") == "no-store")
        #expect(answer.fields.first("WWW-Authenticate") != nil)
    }

    static func ask(
        _ endpoint: Endpoint, fields: [(String, String)], body: String = ""
    ) async -> Response {
        await endpoint.route.response(to: request(endpoint, fields: fields, body: body))
    }

    static func request(_ endpoint: Endpoint, fields: [(String, String)], body: String = "") -> Request {
        let hasBody = body.isEmpty ? [] : [("Content-Type", "application/json")]
        return Request(
            method: endpoint.route.method, path: endpoint.route.template, fields: Fields(fields + hasBody),
            body: Array(body.utf8), bodyBytesMax: endpoint.route.bodyBytesMax, id: "r1",
            receivedAtMilliseconds: 1_800_000_000_000, remoteAddress: "192.0.2.1",
            parameters: ["token": "t", "id": "sid_1", "session_id": "s-1"])
    }
}
