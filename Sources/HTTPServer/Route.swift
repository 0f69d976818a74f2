package import HTTP1

/// A handler. It runs on the executor of its caller, the connection's loop, so that neither the call nor the return
/// needs an executor hop.
package typealias RequestHandler = nonisolated(nonsending) @Sendable (Request) async -> Response

/// The work that makes one response, in its own task on the connection's loop.
package typealias RequestWork = nonisolated(nonsending) @Sendable () async -> Response

/// The result of a responder for a complete request.
package enum Reply: Sendable {
    /// A response made from memory, without waiting.
    case response(Response)
    /// Work that has to wait. The connection starts a task for this work.
    case work(RequestWork)

    package nonisolated(nonsending) func response() async -> Response {
        switch self {
        case .response(let response): response
        case .work(let work): await work()
        }
    }
}

/// A function that is called on the connection's loop with each complete request. It must not block.
package typealias Responder = @Sendable (Request) -> Reply

/// Decides whether to accept the content of a request. It is called on the connection's loop when the head is complete
/// but the content is not. If head and content arrive together, it is not called, so the responder must make the same
/// check.
package typealias RequestJudge = nonisolated(nonsending) @Sendable (Request) async -> Judgement

package enum Judgement: Sendable {
    /// The content is refused. It is not read, and the connection ends with this response (RFC 9112 section 9.6). A
    /// client that waits for 100 (Continue) gets this response instead of 100 (RFC 9110 section 10.1.1).
    case refused(Response)
    /// The content is accepted and read. The memory held for the request counts towards the share of `client` in the
    /// budget. If `client` is nil, it counts only towards the total.
    case welcome(client: String?)
}

/// The check of the credential that a route requires, and the handler that runs after the check. The module API creates
/// this value, because only that module can verify credentials. The middleware `Credentials` installs it in the route.
package struct CredentialCheck: Sendable {
    /// Checks the credential before the content is read. If nil, the credential is checked only after the content is
    /// read.
    package var judge: RequestJudge?
    /// Checks the credential of a complete request, then calls the handler with the caller.
    package var responder: Responder

    package init(judge: RequestJudge? = nil, responder: @escaping Responder) {
        self.judge = judge
        self.responder = responder
    }

    /// Creates a check that starts a task for every request.
    package init(judge: RequestJudge? = nil, handler: @escaping RequestHandler) {
        self.init(
            judge: judge,
            responder: { request in
                .work { await handler(request) }
            })
    }
}

/// One method on one path, with its handler and the checks before the handler runs.
package struct Route: Sendable {
    package var method: Method
    /// The path as a sequence of literal segments and `{name}` segments: `/native/devices/{token}`. It is also the
    /// route's name in logs and metrics.
    package var template: String
    /// The maximum length of a body in bytes, for a route that declares no maximum of its own.
    package static let defaultBodyBytesMax = 64 * 1024

    /// The maximum length of a body in bytes. A longer body is refused with 413: before the body is read if the request
    /// declares the length, otherwise as soon as the body exceeds the maximum.
    package var bodyBytesMax: Int
    /// The judge of the content. If nil, content is accepted from every client.
    package var judge: RequestJudge?
    package var responder: Responder
    /// The check of the credential. If nil, the route requires no credential, or the handler itself checks a credential
    /// in the content.
    package var credential: CredentialCheck?
    /// The `RateLimit-Policy` field of every response on the route, even of a refusal by the `judge` or the server.
    /// Empty if the route has no rate limit.
    package var rateLimitPolicy = Fields()

    package init(
        _ method: Method, _ template: String, bodyBytesMax: Int = defaultBodyBytesMax, judge: RequestJudge? = nil,
        responder: @escaping Responder
    ) {
        self.method = method
        self.template = template
        self.bodyBytesMax = bodyBytesMax
        self.judge = judge
        self.responder = responder
    }

    /// Creates a route that starts a task for every request.
    package init(
        _ method: Method, _ template: String, bodyBytesMax: Int = defaultBodyBytesMax, judge: RequestJudge? = nil,
        handler: @escaping RequestHandler
    ) {
        self.init(
            method, template, bodyBytesMax: bodyBytesMax, judge: judge,
            responder: { request in
                .work { await handler(request) }
            })
    }

    /// Creates a route that requires a credential. Its responder refuses every request until the middleware
    /// `Credentials` has installed the check.
    package init(
        _ method: Method, _ template: String, bodyBytesMax: Int = defaultBodyBytesMax, credential: CredentialCheck
    ) {
        self.init(
            method, template, bodyBytesMax: bodyBytesMax,
            responder: { _ in .response(Response(status: .internalServerError)) })
        self.credential = credential
    }

    /// The route as it is after the middleware `Credentials` has installed the check. Used by tests without a
    /// connection.
    package var prepared: Route {
        var route = self
        Credentials().prepare(&route)
        return route
    }

    /// Calls the responder, waits for its response, and adds the rate limit fields to the response. Used by tests
    /// without a connection.
    package func response(to request: Request) async -> Response {
        var response = await prepared.responder(request).response()
        RateLimitFields.add(to: &response, policy: rateLimitPolicy)
        return response
    }
}

/// A route of a server. It is a class, so that passing it on copies only one reference.
package final class RegisteredRoute: Sendable {
    package let route: Route
    /// The route's index among the server's routes. It is also the route's index in the metrics.
    let index: Int

    init(_ route: Route, index: Int) {
        self.route = route
        self.index = index
    }
}

/// A request that the server refuses without calling a handler. HTTPServer decides the status and the detail, and API
/// renders them as a problem document. Possible reasons:
///
/// - The request is malformed, exceeds a limit, arrives too slowly, or uses an unsupported part of HTTP.
/// - The path is unknown, or has no route for the method.
/// - The server is overloaded.
package struct RefusedRequest: Sendable {
    package var status: Status
    /// A sentence for the client. It never contains the client's input.
    package var detail: String
    package var requestID: String
    /// The path of the request; empty if the head is incomplete.
    package var path: String
    /// The fields that the response must have: `Allow` with 405, `Retry-After` with 503.
    package var fields: Fields

    package init(status: Status, detail: String, requestID: String, path: String, fields: Fields = Fields()) {
        self.status = status
        self.detail = detail
        self.requestID = requestID
        self.path = path
        self.fields = fields
    }
}

package typealias RefusalRenderer = @Sendable (RefusedRequest) -> Response
