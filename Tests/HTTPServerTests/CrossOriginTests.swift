// Tests of requests by web pages of other origins (Fetch standard, HTTP-CORS protocol). They cover the responses that
// such a page may read, including error responses, and the response to a preflight request.

import Testing

@testable import HTTP1
@testable import HTTPServer
@testable import Sockets

@Suite struct CrossOriginTests {
    private static let page = "https://app.example.org"

    private static func configuration(_ origins: String...) throws -> ServerConfiguration {
        var configuration = ServerConfiguration.test
        let crossOrigin = try #require(CrossOrigin(origins))
        configuration.crossOrigin = crossOrigin
        return configuration
    }

    private static func expectReadable(_ answer: Answer, by origin: String = page, _ what: String = "") {
        #expect(answer.fields.values("Access-Control-Allow-Origin") == [origin], "\(what)")
        #expect(answer.fields.values("Access-Control-Allow-Credentials") == ["true"], "\(what)")
        let exposed = answer.fields.first("Access-Control-Expose-Headers") ?? ""
        let names = exposed.split(separator: ",").map { $0.drop { $0 == " " } }
        for name in ["RateLimit", "RateLimit-Policy", "Retry-After", "ETag", "X-Request-Id", "Idempotent-Replayed"] {
            #expect(names.contains { $0 == name }, "\(what): \(name)")
        }
        #expect(answer.fields.values("Vary") == ["Origin"], "\(what)")
    }

    private static func expectUnreadable(_ answer: Answer, _ what: String = "") {
        #expect(!answer.fields.all.contains { $0.name.lowercased().hasPrefix("access-control-") }, "\(what)")
    }

    @Test func `without the setting no answer says anything about origins`() async throws {
        try await withServer([.hello]) { test in
            let client = try await test.connect()
            for request in ["GET /hello", "GET /nowhere", "OPTIONS /hello"] {
                let answer = try await client.exchange(
                    "\(request) HTTP/1.1\r\n\(host)Origin: \(Self.page)\r\nAccess-Control-Request-Method: GET\r\n\r\n")
                Self.expectUnreadable(answer, request)
                #expect(answer.fields.first("Vary") == nil)
            }
        }
    }

    @Test func `every answer can be read by a page that is allowed, and by no other`() async throws {
        let routes: [Route] = [.hello, .echo]
        try await withServer(routes, Self.configuration("http://localhost:5173", Self.page)) { test in
            let requests: [(request: String, status: Int)] = [
                ("GET /hello HTTP/1.1\r\n\(host)", 200), ("HEAD /hello HTTP/1.1\r\n\(host)", 200),
                ("GET /nowhere HTTP/1.1\r\n\(host)", 404), ("DELETE /hello HTTP/1.1\r\n\(host)", 405),
                ("OPTIONS /hello HTTP/1.1\r\n\(host)", 204),
                ("POST /echo HTTP/1.1\r\n\(host)Content-Length: 8000000\r\n", 413),
                ("POST /echo HTTP/1.1\r\n\(host)Transfer-Encoding: nonsense\r\n", 501),
            ]
            for (request, status) in requests {
                for origin in [Self.page, "http://localhost:5173"] {
                    let answer = try await test.connect().exchange("\(request)Origin: \(origin)\r\n\r\n")
                    #expect(answer.status == status, "\(request)")
                    Self.expectReadable(answer, by: origin, request)
                }
                for origin in ["https://evil.example", "https://app.example.org.evil.example", "null", Self.page + "/"]
                {
                    let answer = try await test.connect().exchange("\(request)Origin: \(origin)\r\n\r\n")
                    #expect(answer.status == status)
                    Self.expectUnreadable(answer, "\(request) \(origin)")
                    #expect(answer.fields.values("Vary") == ["Origin"])
                }
                let plain = try await test.connect().exchange("\(request)\r\n")
                Self.expectUnreadable(plain, request)
                #expect(plain.fields.values("Vary") == ["Origin"], "a cache must not hand it to a page")
            }
        }
    }

    @Test func `a request that is refused inside its head is answered to the page too`() async throws {
        try await withServer([.hello], Self.configuration(Self.page)) { test in
            let answer = try await test.connect().exchange(
                "GET /hello HTTP/1.1\r\n\(host)Origin: \(Self.page)\r\nContent-Length: one\r\n\r\n")
            #expect(answer.status == 400)
            Self.expectReadable(answer)
        }
    }

    @Test func `a stream can be read as it comes`() async throws {
        let stream = Route(.get, "/stream") { _ in
            Response(
                status: .ok, fields: Fields([("Content-Type", "text/event-stream")]),
                body: .stream { try await $0.write(Array("data: 1\n\n".utf8)) })
        }
        try await withServer([stream], Self.configuration(Self.page)) { test in
            let answer = try await test.connect().exchange(
                "GET /stream HTTP/1.1\r\n\(host)Origin: \(Self.page)\r\n\r\n")
            #expect(answer.text == "data: 1\n\n")
            Self.expectReadable(answer)
        }
    }

    @Test func `two Origin fields are none`() async throws {
        try await withServer([.hello], Self.configuration(Self.page)) { test in
            let twice = "Origin: \(Self.page)\r\nOrigin: https://evil.example\r\n"
            Self.expectUnreadable(try await test.connect().exchange("GET /hello HTTP/1.1\r\n\(host)\(twice)\r\n"))
        }
    }

    @Test func `a preflight is answered the same for every path, and no handler is asked`() async throws {
        let unreachable = Route(.post, "/events") { _ in Response(status: .internalServerError) }
        try await withServer([.hello, unreachable], Self.configuration(Self.page)) { test in
            let client = try await test.connect()
            for path in ["/events", "/hello", "/nowhere", "*"] {
                for method in ["POST", "GET", "DELETE", "BREW"] {
                    let answer = try await client.exchange(
                        "OPTIONS \(path) HTTP/1.1\r\n\(host)Origin: \(Self.page)\r\n"
                            + "Access-Control-Request-Method: \(method)\r\n"
                            + "Access-Control-Request-Headers: authorization,content-type\r\n\r\n")
                    #expect(answer.status == 204)
                    Self.expectReadable(answer, "\(method) \(path)")
                    let methods = answer.fields.first("Access-Control-Allow-Methods")
                    #expect(methods == "GET, HEAD, POST, OPTIONS")
                    let fields = answer.fields.first("Access-Control-Allow-Headers") ?? ""
                    for name in ["Authorization", "Content-Type", "Idempotency-Key", "X-Sent-At", "Last-Event-ID"] {
                        #expect(fields.contains(name))
                    }
                    #expect(answer.fields.first("Access-Control-Max-Age") == "7200")
                }
            }
            #expect(try await client.exchange("GET /hello HTTP/1.1\r\n\(host)\r\n").text == "hello")
        }
    }

    @Test func `a preflight from elsewhere is an OPTIONS like any other`() async throws {
        try await withServer([.hello], Self.configuration(Self.page)) { test in
            let client = try await test.connect()
            let asked = "Origin: https://evil.example\r\nAccess-Control-Request-Method: GET\r\n\r\n"
            let answer = try await client.exchange("OPTIONS /hello HTTP/1.1\r\n\(host)\(asked)")
            #expect(answer.status == 204 && answer.fields.first("Allow") == "GET, HEAD, OPTIONS")
            Self.expectUnreadable(answer)
            #expect(try await client.exchange("OPTIONS /nowhere HTTP/1.1\r\n\(host)\(asked)").status == 404)
        }
    }

    @Test(
        arguments: [
            "https://app.example.org", "http://localhost:5173", "http://127.0.0.1:8000", "http://[::1]:3000",
            "https://a.example:8443", "capacitor://localhost", "chrome-extension://abcdefghijklmnop",
        ])
    func originsAreTakenInTheFormOfBrowsers(text: String) {
        #expect(CrossOrigin([text])?.origins == [text])
    }

    @Test(
        arguments: [
            "*", "null", "", "app.example.org", "https://", "https://app.example.org/", "https://app.example.org/a",
            "HTTPS://app.example.org", "https://App.example.org", "https://app.example.org:443",
            "http://app.example.org:80", "https://app.example.org:", "https://app.example.org:0",
            "https://app.example.org:65536", "https://app.example.org:08443", "https://*.example.org",
            "https://u@app.example.org", "https://app.example.org?a", "https://b\u{fc}cher.example", "://a", "1a://b",
            "https://[::1", "https://[]", "https://a b", "https://a\r\nX: y", "https://[::1]x",
        ])
    func whatABrowserNeverSendsIsNotTaken(text: String) {
        #expect(CrossOrigin([text]) == nil)
        #expect(CrossOrigin(["https://app.example.org", text]) == nil)
    }

    @Test func `there is a bound on how many`() {
        let origins = (0...CrossOrigin.originsMax).map { "https://a\($0).example" }
        #expect(CrossOrigin(origins) == nil && CrossOrigin(Array(origins.dropLast())) != nil)
        #expect(CrossOrigin([]) == nil)
    }
}
