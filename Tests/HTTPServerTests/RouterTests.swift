// Tests of the router, which matches a method and a path to a route. See RFC 9110 sections 9.3.2 (HEAD), 9.3.7
// (OPTIONS), 15.5.5 (404) and 15.5.6 (405 with Allow).

import Testing

@testable import HTTP1
@testable import HTTPServer

@Suite struct RouterTests {
    private static func route(_ method: Method, _ template: String) -> Route {
        Route(method, template) { _ in Response(status: .ok) }
    }

    private let router = Router([
        route(.get, "/a"), route(.post, "/a"), route(.post, "/b"),
        route(.get, "/devices/{token}"), route(.delete, "/devices/{token}"), route(.get, "/devices/list"),
        route(.get, "/x/{one}/y/{two}"),
    ])

    private func describe(_ method: Method, _ path: String) -> String {
        switch router.match(method, path) {
        case .route(let placed, let parameters):
            let route = placed.route
            let values = parameters.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
            return ([route.method.rawValue, route.template] + values).joined(separator: " ")
        case .notFound: return "404"
        case .methodNotAllowed(let allow): return "405 \(allow)"
        case .options(let allow): return "204 \(allow)"
        }
    }

    @Test(arguments: [
        (Method.get, "/a", "GET /a"),
        (.post, "/a", "POST /a"),
        (.head, "/a", "GET /a"),
        (.get, "/b", "405 POST, OPTIONS"),
        (.head, "/b", "405 POST, OPTIONS"),
        (.put, "/a", "405 GET, HEAD, POST, OPTIONS"),
        (.options, "/a", "204 GET, HEAD, POST, OPTIONS"),
        (.options, "*", "204 GET, HEAD, POST, DELETE, OPTIONS"),
        (.get, "/a/", "404"),
        (.get, "/A", "404"),
        (.get, "/", "404"),
        (.options, "/nowhere", "404"),
        (.get, "/devices/abc", "GET /devices/{token} token=abc"),
        (.delete, "/devices/a b", "DELETE /devices/{token} token=a b"),
        (.get, "/devices/list", "GET /devices/list"),
        (.delete, "/devices/list", "405 GET, HEAD, OPTIONS"),
        (.get, "/devices/", "404"),
        (.get, "/devices/a/b", "404"),
        (.get, "/x/1/y/2", "GET /x/{one}/y/{two} one=1 two=2"),
        (.get, "/x/1/z/2", "404"),
        (Method("get"), "/a", "405 GET, HEAD, POST, OPTIONS"),
    ])
    func `a method and a path lead to one place`(method: Method, path: String, expected: String) {
        #expect(describe(method, path) == expected)
    }
}
