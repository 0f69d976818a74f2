package import HTTP1

/// It runs where it is called, on the connection's loop, and comes back there without asking the runtime for the way.
package typealias RequestHandler = nonisolated(nonsending) @Sendable (Request) async -> Response

/// What makes one response, in a task of its own on the connection's loop.
package typealias RequestWork = nonisolated(nonsending) @Sendable () async -> Response

/// What becomes of a request that is complete.
package enum Reply: Sendable {
    /// From memory.
    case response(Response)
    /// Something has to be waited for: a task is started.
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

/// What is asked when the head of a request has come and its content has not: whether it may. It runs on the
/// connection's loop. Not asked when both came at once; so the handler judges again.
package typealias RequestJudge = nonisolated(nonsending) @Sendable (Request) async -> Judgement

package enum Judgement: Sendable {
    /// The content is not read; the connection ends with this answer (RFC 9112 section 9.6), which a client that waits for
    /// 100 (Continue) gets instead of it (RFC 9110 section 10.1.1).
    case refused(Response)
    /// `client`: who it is, by the name under which what it makes the server hold is counted.
    case welcome(client: String?)
}

/// One method on one path, with what holds for it before its handler runs.
package struct Route: Sendable {
    package var method: Method
    /// Literal segments and `{name}` segments: `/native/devices/{token}`. Also the route's name in logs and metrics.
    package var template: String
    /// A longer body is refused with 413 before it is read (or as soon as it is longer).
    package var bodyBytesMax: Int
    /// nil: the content may come from anybody.
    package var judge: RequestJudge?
    package var responder: Responder
    /// On every response of the route, whoever makes it: its handler, its judge or the server.
    package var responseFields: [Fields.Field] = []

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

    /// A route whose every request is work.
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

    /// The response, however it is made: for tests without a connection.
    package func response(to request: Request) async -> Response {
        var response = await responder(request).response()
        for field in responseFields { response.fields.append(field.name, field.value) }
        return response
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
