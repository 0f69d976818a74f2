// What happens to every request on every route, as a list in the order in which it runs. Each concern can be read, tested
// and left out by itself. A field on every response is one line: in `respond` of one of these.
//
//   begin      the head is complete and its route found: in the order of the list
//   respond    the response is complete but for its bytes: in the reverse order
//   end        the bytes of the response are made, a stream's last ones too: in the order of the list
//
// What needs the caller (the credential, the charge and the quota) is around the handler of a route: API/Routes.swift.

internal import HTTP1

/// One concern of every request: one or more of the three below. Called on the connection's loop; must not block.
protocol Middleware: Sendable {}

protocol RequestMiddleware: Middleware {
    /// The content has not been read. Also for a request that is refused before its head is complete, with the fields that
    /// came until then.
    func begin(_ exchange: inout Exchange)
}

protocol ResponseMiddleware: Middleware {
    /// For a handler's response, a refusal and the head of a stream.
    func respond(_ response: inout Response, to exchange: Exchange)
}

protocol CompletionMiddleware: Middleware {
    func end(_ exchange: Exchange, _ outcome: ExchangeOutcome)
}

struct ExchangeOutcome {
    var status: Status
    /// From the complete head to the made response, a streamed one's end included.
    var durationNanoseconds: UInt64
    /// Head and framing included.
    var bytesIn: Int
    var bytesOut: Int
}

struct MiddlewareList: Sendable {
    var middleware: [any Middleware] { didSet { take() } }

    // The calls that are not empty, in their order: a request makes a third of them, and copies no existential.
    private var begins: [Begin] = []
    private var responds: [Respond] = []
    private var ends: [End] = []

    // In structs, since a closure that is an element of a collection by itself is wrapped anew with each access.
    private struct Begin {
        let call: @Sendable (inout Exchange) -> Void
    }
    private struct Respond {
        let call: @Sendable (inout Response, Exchange) -> Void
    }
    private struct End {
        let call: @Sendable (Exchange, ExchangeOutcome) -> Void
    }

    /// The list of a server.
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
        middleware += [SizeLimits(), RouteFields(), Problems(render: refusals)] as [any Middleware]
        take()
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

/// Gives the request its id; ResponseEncoder writes it into the response.
struct RequestIDs: RequestMiddleware {
    func begin(_ exchange: inout Exchange) {
        exchange.request.id = RequestID.of(exchange.request.fields)
    }
}

/// Finds the client behind trusted proxies. A request whose head is not complete keeps the peer's address: the field may
/// be missing.
struct ClientAddresses: RequestMiddleware {
    let proxies: TrustedProxies

    func begin(_ exchange: inout Exchange) {
        guard exchange.hasHead else { return }
        let client = proxies.clientAddress(peer: exchange.request.remoteAddress, exchange.request.fields)
        exchange.request.remoteAddress = client.text
        exchange.addressGap = client.gap
    }
}

/// Reports each request with its response.
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

/// Counts requests by route, method and status.
struct RequestCounts: CompletionMiddleware {
    let metrics: RequestMetrics

    func end(_ exchange: Exchange, _ outcome: ExchangeOutcome) {
        metrics.answered(
            exchange.placed?.place, exchange.method, outcome.status, nanoseconds: outcome.durationNanoseconds,
            bytesIn: outcome.bytesIn, bytesOut: outcome.bytesOut)
    }
}

/// CORS: preflights are answered from memory, whatever their path; every response says which page may read it.
struct CrossOriginRequests: RequestMiddleware, ResponseMiddleware {
    let crossOrigin: CrossOrigin
    /// All that the server takes on any path.
    let methods: String

    func begin(_ exchange: inout Exchange) {
        guard exchange.hasHead,
            let fields = crossOrigin.preflightAnswer(
                exchange.request.method, exchange.request.fields, methods: methods)
        else { return }
        exchange.destination = .noContent(fields)
        exchange.request.parameters = [:]
    }

    func respond(_ response: inout Response, to exchange: Exchange) {
        crossOrigin.allow(exchange.request.fields, in: &response.fields)
    }
}

/// Limits the content: to what the route takes; of a request that reaches no handler, to what is worth reading so that the
/// connection can go on.
struct SizeLimits: RequestMiddleware {
    static let discardedBytesMax = 64 << 10

    func begin(_ exchange: inout Exchange) {
        exchange.bodyBytesMax = exchange.placed?.route.bodyBytesMax ?? Self.discardedBytesMax
    }
}

/// The fields that a route wants on each of its responses, as the policy of its rate limits.
struct RouteFields: ResponseMiddleware {
    func respond(_ response: inout Response, to exchange: Exchange) {
        guard let fields = exchange.placed?.route.responseFields else { return }
        for field in fields { response.fields.append(field.name, field.value) }
    }
}

/// Renders a refusal as a problem. Without it a refusal is its status and fields.
struct Problems: ResponseMiddleware {
    let render: RefusalRenderer

    func respond(_ response: inout Response, to exchange: Exchange) {
        guard let detail = exchange.refusalDetail else { return }
        response = render(
            RefusedRequest(
                status: response.status, detail: detail, requestID: exchange.request.id, fields: response.fields))
    }
}
