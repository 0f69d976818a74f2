// The middleware that runs for every request on every route. Each element of the list can be read, tested and removed
// on its own.
//
//   prepare    called with each route when the server starts, in list order
//   begin      called before the content is read, also for a request that is refused early, in list order
//   respond    called before the response or the head of a stream is encoded, in reverse list order
//   end        called when the response is encoded, or when its stream has ended or failed, in list order

internal import HTTP1

/// A step that runs for every request. A type implements one or more of the four protocols below. All calls except
/// `prepare` are made on the connection's loop, so they must not block.
protocol Middleware: Sendable {}

protocol RouteMiddleware: Middleware {
    /// Changes the route. Called once for each route, before the server listens.
    func prepare(_ route: inout Route)
}

protocol RequestMiddleware: Middleware {
    /// Called before the content is read, and also for a request that is refused before its head is complete. The
    /// exchange of such a request has only the fields received before the refusal.
    func begin(_ exchange: inout Exchange)
}

protocol ResponseMiddleware: Middleware {
    /// Called for a handler's response, for a refusal, and for the head of a stream.
    func respond(_ response: inout Response, to exchange: Exchange)
}

protocol CompletionMiddleware: Middleware {
    func end(_ exchange: Exchange, _ outcome: ExchangeOutcome)
}

struct ExchangeOutcome {
    var status: Status
    /// The time from the end of the request's head until the response is encoded, or until the end of a streamed
    /// response.
    var durationNanoseconds: UInt64
    /// The bytes of the request, including head and framing.
    var bytesIn: Int
    var bytesOut: Int
}

struct MiddlewareList: Sendable {
    var middleware: [any Middleware] { didSet { take() } }

    // The methods of the list's elements, in the order of the calls. They are closures, because a call through an
    // existential would copy the element.
    private var begins: [Begin] = []
    private var responds: [Respond] = []
    private var ends: [End] = []

    // Each closure is in a struct, because Swift would wrap a bare closure again at each access.
    private struct Begin {
        let call: @Sendable (inout Exchange) -> Void
    }
    private struct Respond {
        let call: @Sendable (inout Response, Exchange) -> Void
    }
    private struct End {
        let call: @Sendable (Exchange, ExchangeOutcome) -> Void
    }

    init(
        _ configuration: ServerConfiguration, methods: String, observer: any RequestObserver, metrics: RequestMetrics,
        refusals: @escaping RefusalRenderer
    ) {
        middleware = [
            RequestIDs(),
            ClientAddresses(proxies: configuration.trustedProxies),
            AccessLog(observer: observer),
            RequestCounts(metrics: metrics),
        ]
        if let crossOrigin = configuration.crossOrigin {
            middleware.append(CrossOriginRequests(crossOrigin: crossOrigin, methods: methods))
        }
        middleware +=
            [SizeLimits(), Credentials(), RateLimitFields(), Problems(render: refusals)] as [any Middleware]
        take()
    }

    /// Returns the routes after every `prepare` has changed them.
    func prepared(_ routes: [Route]) -> [Route] {
        let prepares = middleware.compactMap { $0 as? any RouteMiddleware }
        return routes.map { route in
            var route = route
            for middleware in prepares { middleware.prepare(&route) }
            return route
        }
    }

    private mutating func take() {
        begins = middleware.compactMap { $0 as? any RequestMiddleware }.map { Begin(call: $0.begin) }
        responds = middleware.reversed().compactMap { $0 as? any ResponseMiddleware }.map { Respond(call: $0.respond) }
        ends = middleware.compactMap { $0 as? any CompletionMiddleware }.map { End(call: $0.end) }
    }

    func begin(_ exchange: inout Exchange) {
        for middleware in begins { middleware.call(&exchange) }
    }

    func respond(_ response: inout Response, to exchange: Exchange) {
        for middleware in responds { middleware.call(&response, exchange) }
    }

    func end(_ exchange: Exchange, _ outcome: ExchangeOutcome) {
        for middleware in ends { middleware.call(exchange, outcome) }
    }
}

// MARK: - The list, in its order

/// Assigns an id to the request. ResponseEncoder writes this id into the response.
struct RequestIDs: RequestMiddleware {
    func begin(_ exchange: inout Exchange) {
        exchange.request.id = RequestID.of(exchange.request.fields)
    }
}

/// Finds the client's address behind trusted proxies. A request with an incomplete head keeps the address of the peer,
/// because the forwarding field may be missing.
struct ClientAddresses: RequestMiddleware {
    let proxies: TrustedProxies

    func begin(_ exchange: inout Exchange) {
        guard exchange.hasHead else { return }
        let client = proxies.clientAddress(peer: exchange.request.remoteAddress, exchange.request.fields)
        exchange.request.remoteAddress = client.text
        exchange.addressGap = client.gap
    }
}

struct AccessLog: CompletionMiddleware {
    let observer: any RequestObserver

    func end(_ exchange: Exchange, _ outcome: ExchangeOutcome) {
        observer.answered(
            CompletedRequest(
                requestID: exchange.request.id, method: exchange.method,
                routeTemplate: exchange.placed?.route.template, status: outcome.status,
                durationNanoseconds: outcome.durationNanoseconds, bytesIn: outcome.bytesIn, bytesOut: outcome.bytesOut,
                remoteAddress: exchange.request.remoteAddress, addressGap: exchange.addressGap,
                principal: exchange.principal, refusalReason: exchange.refusalReason,
                traceParent: exchange.request.fields.first("traceparent")))
    }
}

struct RequestCounts: CompletionMiddleware {
    let metrics: RequestMetrics

    func end(_ exchange: Exchange, _ outcome: ExchangeOutcome) {
        metrics.answered(
            exchange.placed?.index, exchange.method, outcome.status, nanoseconds: outcome.durationNanoseconds,
            bytesIn: outcome.bytesIn, bytesOut: outcome.bytesOut)
    }
}

/// Handles CORS. Answers the preflights of allowed pages on every path, without calling a handler. Adds the response
/// fields that tell a browser which page may read the response.
struct CrossOriginRequests: RequestMiddleware, ResponseMiddleware {
    let crossOrigin: CrossOrigin
    /// The methods that the server accepts on at least one path.
    let methods: String

    func begin(_ exchange: inout Exchange) {
        guard exchange.hasHead,
            let fields = crossOrigin.preflightResponse(
                exchange.request.method, exchange.request.fields, methods: methods)
        else { return }
        exchange.destination = .noContent(fields)
        exchange.request.parameters = [:]
    }

    func respond(_ response: inout Response, to exchange: Exchange) {
        crossOrigin.allow(exchange.request.fields, in: &response.fields)
    }
}

/// Limits the content to the route's maximum. If no handler is called, up to `discardedBytesMax` bytes of content are
/// discarded, so that the connection can serve the next request. Longer content ends the connection.
struct SizeLimits: RequestMiddleware {
    static let discardedBytesMax = 64 << 10

    func begin(_ exchange: inout Exchange) {
        exchange.request.bodyBytesMax = exchange.placed?.route.bodyBytesMax ?? Self.discardedBytesMax
    }
}

/// Makes a route check the credential in two places. The judge (`RequestJudge`) checks it before the content is read,
/// but is not called if head and content arrive together. The responder therefore always checks it before the handler
/// runs.
///
/// Without this middleware, a route that requires a credential refuses every request.
struct Credentials: RouteMiddleware {
    func prepare(_ route: inout Route) {
        guard let credential = route.credential else { return }
        route.judge = credential.judge
        route.responder = credential.responder
    }
}

/// Adds two fields: `RateLimit`, with the caller's quotas after this request, and the route's `RateLimit-Policy`.
struct RateLimitFields: ResponseMiddleware {
    func respond(_ response: inout Response, to exchange: Exchange) {
        guard let placed = exchange.placed else { return }
        Self.add(to: &response, policy: placed.route.rateLimitPolicy)
    }

    static func add(to response: inout Response, policy: Fields) {
        if let rateLimit = response.rateLimit { response.fields.append("RateLimit", rateLimit) }
        response.fields.append(contentsOf: policy)
    }
}

/// Renders a refusal as a problem document (RFC 9457). Without this middleware, a refusal has only a status and fields.
struct Problems: ResponseMiddleware {
    let render: RefusalRenderer

    func respond(_ response: inout Response, to exchange: Exchange) {
        guard let detail = exchange.refusalDetail else { return }
        response = render(
            RefusedRequest(
                status: response.status, detail: detail, requestID: exchange.request.id, path: exchange.request.path,
                fields: response.fields))
    }
}
