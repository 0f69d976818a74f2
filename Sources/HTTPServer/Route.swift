package import HTTP1

/// Runs on the caller's executor, the connection's loop, and returns there without an executor hop.
package typealias RequestHandler = nonisolated(nonsending) @Sendable (Request) async -> Response

/// Makes one response, in its own task on the connection's loop.
package typealias RequestWork = nonisolated(nonsending) @Sendable () async -> Response

/// The result for a complete request.
package enum Reply: Sendable {
    /// Made from memory, without waiting.
    case response(Response)
    /// Has to wait for something: a task is started.
    case work(RequestWork)

    package nonisolated(nonsending) func response() async -> Response {
        switch self {
        case .response(let response): response
        case .work(let work): await work()
        }
    }
}

/// Called on the connection's loop with each complete request; must not block.
package typealias Responder = @Sendable (Request) -> Reply

/// Decides, when the head of a request has been received and its content has not, whether to accept the content. Runs
/// on the connection's loop. Not called when both arrived together, so the handler checks again.
package typealias RequestJudge = nonisolated(nonsending) @Sendable (Request) async -> Judgement

package enum Judgement: Sendable {
    /// The content is not read; the connection ends with this response (RFC 9112 section 9.6). A client that waits for
    /// 100 (Continue) gets it instead (RFC 9110 section 10.1.1).
    case refused(Response)
    /// `client`: the name under which the memory held for the client is counted.
    case welcome(client: String?)
}

/// One method on one path, with what applies before its handler runs.
package struct Route: Sendable {
    package var method: Method
    /// Literal segments and `{name}` segments: `/native/devices/{token}`. Also the route's name in logs and metrics.
    package var template: String
    /// A longer body is refused with 413, before it is read if its length is known, else once it is longer.
    package var bodyBytesMax: Int
    /// nil: the content is accepted from every client.
    package var judge: RequestJudge?
    package var responder: Responder
    /// Added to every response of the route, made by its handler, its judge or the server.
    package var responseFields = Fields()

    package init(
        _ method: Method, _ template: String, bodyBytesMax: Int = 64 * 1024, judge: RequestJudge? = nil,
        responder: @escaping Responder
    ) {
        self.method = method
        self.template = template
        self.bodyBytesMax = bodyBytesMax
        self.judge = judge
        self.responder = responder
    }

    /// A route whose requests all need a task.
    package init(
        _ method: Method, _ template: String, bodyBytesMax: Int = 64 * 1024, judge: RequestJudge? = nil,
        handler: @escaping RequestHandler
    ) {
        self.init(
            method, template, bodyBytesMax: bodyBytesMax, judge: judge,
            responder: { request in
                .work { await handler(request) }
            })
    }

    /// The response, with or without work: for tests without a connection.
    package func response(to request: Request) async -> Response {
        var response = await responder(request).response()
        response.fields.append(contentsOf: responseFields)
        return response
    }
}

/// A route of a server. A class, so that passing it on costs one reference.
package final class RegisteredRoute: Sendable {
    package let route: Route
    /// Its index among the server's routes and in their metrics.
    let place: Int

    init(_ route: Route, place: Int) {
        self.route = route
        self.place = place
    }
}

/// A request that never reaches a handler: malformed, over a limit, unknown path, wrong method, server overloaded.
/// HTTPServer decides the status and the detail; API renders them (one problem format everywhere).
package struct RefusedRequest: Sendable {
    package var status: Status
    /// A sentence for the client. Never repeats the client's input.
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
