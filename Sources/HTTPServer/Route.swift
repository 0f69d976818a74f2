package import HTTP1

/// It runs where it is called, on the connection's loop, and comes back there without asking the runtime for the way.
package typealias RequestHandler = nonisolated(nonsending) @Sendable (Request) async -> Response

/// One method on one path, with what holds for it before its handler runs.
package struct Route: Sendable {
    package var method: Method
    /// Literal segments and `{name}` segments: `/native/devices/{token}`. Also the route's name in logs and metrics.
    package var template: String
    /// A longer body is refused with 413 before it is read (or as soon as it is longer).
    package var bodyBytesMax: Int
    package var handler: RequestHandler
    /// Asked before the handler, on the connection's loop and without a task of its own: what can be answered from
    /// memory costs no more than that. Must not block. nil: the handler is asked.
    package var atOnce: (@Sendable (Request) -> Response?)?

    package init(
        _ method: Method, _ template: String, bodyBytesMax: Int = 64 * 1024,
        atOnce: (@Sendable (Request) -> Response?)? = nil,
        handler: @escaping RequestHandler
    ) {
        self.method = method
        self.template = template
        self.bodyBytesMax = bodyBytesMax
        self.atOnce = atOnce
        self.handler = handler
    }
}

/// A route of a server. An object, so that handing it on costs one reference.
package final class RegisteredRoute: Sendable {
    package let route: Route
    /// Its place among the routes of the server, by which its figures are kept.
    let place: Int

    init(_ route: Route, place: Int) {
        self.route = route
        self.place = place
    }
}

/// A request that never reaches a handler: malformed, over a limit, no such path, wrong method, shedding.
/// HTTPServer says what happened; API says how it looks (one problem form everywhere).
package struct RefusedRequest: Sendable {
    package var status: Status
    /// A sentence for the client. Never repeats its input.
    package var detail: String
    package var requestID: String
    /// Fields the refusal must carry: `Allow` with 405, `Retry-After` with 503.
    package var fields: Fields

    package init(status: Status, detail: String, requestID: String, fields: Fields = Fields()) {
        self.status = status
        self.detail = detail
        self.requestID = requestID
        self.fields = fields
    }
}

package typealias RefusalRenderer = @Sendable (RefusedRequest) -> Response
