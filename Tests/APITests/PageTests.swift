// Checks that openapi.json describes exactly the existing routes and their credentials. Also checks the
// Content-Security-Policy and the entity tag of a page.

import HTTP1
import HTTPServer
import RateLimiting
import Testing

import struct Foundation.Data
import class Foundation.JSONSerialization

@testable import API

@Suite struct PageTests {
    /// Style sheets and scripts of pages are not part of the API, so openapi.json does not describe them.
    private static let undescribed = Set(
        PageHandlers.pages.map { path, _ in "GET \(path)" }.filter { $0.hasSuffix(".css") || $0.hasSuffix(".js") })

    private static func description() throws -> [String: Any] {
        let page = try #require(PageHandlers.pages.first { path, _ in path == "/openapi.json" }?.1)
        return try #require(try JSONSerialization.jsonObject(with: Data(page.bytes)) as? [String: Any])
    }

    private func described() throws -> Set<String> {
        let paths = try #require(try Self.description()["paths"] as? [String: [String: Any]])
        return Set(paths.flatMap { path, item in item.keys.map { "\($0.uppercased()) \(path)" } })
    }

    @Test func everyRouteIsDescribedAndNoOther() throws {
        let watching = OperatorRoutes(
            readiness: Readiness(takesWrite: { true }, redis: { .notConfigured }, clock: { 0 }), metricsToken: nil,
            guesses: Guessed().guesses(LocalRateLimiter(limits: .off)), metricsMediaType: "text/plain"
        ) { "" }
        let all = ScriptedAPI().routes + watching.health + [watching.metrics]
        let routes = Set(all.map { "\($0.method.rawValue) \($0.template)" })
        #expect(try described() == routes.subtracting(Self.undescribed))
    }

    @Test func `the description has the statuses 429 and 413 where the route can return them`() throws {
        let paths = try #require(try Self.description()["paths"] as? [String: [String: [String: Any]]])
        for endpoint in ScriptedAPI().surface {
            let method = endpoint.route.method.rawValue
            guard let operation = paths[endpoint.route.template]?[method.lowercased()] else { continue }
            let responses = try #require(operation["responses"] as? [String: Any])
            let isLimited = !endpoint.limits.isEmpty
            #expect(!isLimited || responses["429"] != nil, "\(method) \(endpoint.route.template)")
            let hasContent = ["POST", "PUT", "PATCH"].contains(method)
            #expect(!hasContent || responses["413"] != nil, "\(method) \(endpoint.route.template)")
        }
    }

    @Test func `the description has the status 503 where the status of a token is read`() throws {
        let paths = try #require(try Self.description()["paths"] as? [String: [String: [String: Any]]])
        for endpoint in ScriptedAPI().surface {
            switch endpoint.credential {
            case .accessToken, .serviceToken, .operatorToken: break
            default: continue
            }
            let method = endpoint.route.method.rawValue
            let operation = try #require(paths[endpoint.route.template]?[method.lowercased()])
            let responses = try #require(operation["responses"] as? [String: Any])
            #expect(responses["503"] != nil, "\(method) \(endpoint.route.template)")
        }
    }

    @Test func `the description has the status 408 for GET and for no other method`() throws {
        let paths = try #require(try Self.description()["paths"] as? [String: [String: [String: Any]]])
        for (path, operations) in paths {
            for (method, operation) in operations {
                let responses = try #require(operation["responses"] as? [String: Any])
                #expect((responses["408"] != nil) == (method == "get"), "\(method) \(path)")
            }
        }
    }

    @Test func theDescriptionSaysWhichCredentialIsWanted() throws {
        let paths = try #require(try Self.description()["paths"] as? [String: [String: [String: Any]]])
        for endpoint in ScriptedAPI().surface {
            let method = endpoint.route.method.rawValue
            guard !Self.undescribed.contains("\(method) \(endpoint.route.template)") else { continue }
            let operation = paths[endpoint.route.template]?[method.lowercased()]
            let security = try #require(operation?["security"] as? [[String: Any]], "\(endpoint.route.template)")
            let schemes: [String] =
                switch endpoint.credential {
                case .accessToken, .serviceToken, .singleToken: ["bearer"]
                case .operatorToken: ["operator"]
                case .none, .refreshToken, .identityToken, .oneTimeCode, .appleNotice, .storeNotification: []
                }
            #expect(security.flatMap(\.keys) == schemes, "\(method) \(endpoint.route.template)")
        }
    }

    @Test func aPageIsAskedForOnce() async throws {
        let api = ScriptedAPI()
        let first = await api.ask("/docs", fields: [])
        #expect(first.status == .ok)
        #expect(first.text.contains("<title>Dwell"))
        #expect(first.fields.first("Content-Security-Policy")?.contains("default-src 'none'") == true)
        let tag = try #require(first.fields.first("ETag"))
        let second = await api.ask("/docs", fields: [("If-None-Match", tag)])
        #expect(second.status == .notModified)
        #expect(second.text.isEmpty)
        let third = await api.ask("/docs", fields: [("If-Match", "W/\(tag)")])
        #expect(third.status.code == 412 && third.text.contains(#""code":"precondition_failed""#))
    }
}
