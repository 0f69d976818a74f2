// The list of the routes: method, path, credential, limits and handler. /readyz and /metrics are in OperatorRoutes,
// because they may have their own listener.

package import CoreMetrics
package import Engine
import HTTP1
package import HTTPServer
package import Identity
package import JourneyModel
package import Logging
package import Purchases
package import RateLimiting

/// The routes with their dependencies, which the module App creates.
package struct API: Sendable {
    private let access: Access
    private let addressLimit: AddressLimit
    private let driverLimit: DriverLimit
    private let refusalLimit: RefusalLimit
    private let events: EventHandlers
    private let sessions: SessionsHandler
    private let journeys: JourneyHandlers
    private let stream: StreamHandler
    private let sessionCodes: SessionCodeHandlers
    private let config: ConfigHandler
    private let backgroundPing: BackgroundPingHandler
    private let signIn: SignInHandlers
    private let purchases: PurchaseHandlers
    private let operation: OperatorHandlers
    private let lists: OperatorListHandlers
    private let links: LinkHandlers
    private let limits: RateLimits

    /// - Parameters:
    ///   - clock: returns the current time. A stream needs it, because its messages are written long after the request
    ///     arrived.
    ///   - purchases: the purchase service; nil if the server accepts no purchases.
    ///   - links: the apps that open links to this host.
    ///   - pages: the pages that the operator keeps as files.
    ///   - bufferBudget: limits the memory that the server uses for decompressed bodies.
    package init(
        ingest: Ingest, store: any EventStore, journeys: any JourneyReader, streams: JourneyStreams,
        settings: CurrentSettings, limits: RateLimits, admission: any Admission, tokens: any TokenVerifier,
        signIn: SignInServices, purchases: (any PurchaseService)? = nil, operation: OperatorParts,
        links: AppLinks = AppLinks(), pages: PublicPages = PublicPages(),
        bufferBudget: BufferBudget, clock: @escaping @Sendable () -> Moment, logger: Logger,
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) {
        access = Access(
            tokens: tokens, operatorToken: operation.token, guesses: operation.guesses,
            metrics: TokenMetrics(metrics), refused: operation.refused)
        addressLimit = AddressLimit(admission: admission, refused: operation.refused)
        driverLimit = DriverLimit(admission: admission)
        refusalLimit = RefusalLimit(admission: admission)
        events = EventHandlers(
            ingest: ingest, refusals: refusalLimit, bufferBudget: bufferBudget, logger: logger)
        sessions = SessionsHandler(store: store, logger: logger)
        sessionCodes = SessionCodeHandlers(
            codes: signIn.sessionCodes, events: events, failures: AccountFailures(logger: logger))
        self.journeys = JourneyHandlers(
            journeys: journeys, settings: settings, limit: driverLimit, logger: logger)
        stream = StreamHandler(
            journeys: journeys, streams: streams, tokens: tokens, limit: driverLimit, clock: clock, logger: logger,
            purchases: purchases)
        config = ConfigHandler(settings: settings)
        backgroundPing = BackgroundPingHandler(metrics)
        self.signIn = SignInHandlers(signIn, purchases: purchases, limit: driverLimit, logger: logger)
        self.purchases = PurchaseHandlers(
            purchases: purchases, refusedNotifications: RefusedNotificationLimit(admission: admission),
            limit: driverLimit, changed: streams.wake, failures: AccountFailures(logger: logger),
            metrics: PurchaseMetrics(metrics))
        self.operation = OperatorHandlers(
            operation, settings: settings, access: access, isEnding: { streams.isClosed }, clock: clock, logger: logger)
        lists = OperatorListHandlers(operation: operation, clock: clock, logger: logger)
        self.links = LinkHandlers(links, pages: pages)
        self.limits = limits
    }

    package var routes: [Route] { surface.map(\.route) }

    /// The number of open operator streams.
    package var operatorStreamCount: Int { operation.streamCount }

    /// All routes, each with its credential and the limits that its requests count towards.
    package var surface: [Endpoint] {
        endpoints.map { endpoint in
            var endpoint = endpoint
            // The operator's routes get no RateLimit-Policy, because somebody who guesses tokens must not learn how
            // many attempts are possible.
            if endpoint.credential != .operatorToken,
                let policy = RateLimitValues.policy(limits, for: endpoint.limits)
            {
                endpoint.route.rateLimitPolicy = Fields([("RateLimit-Policy", policy)])
            }
            return endpoint
        }
    }

    private var endpoints: [Endpoint] {
        let batch = BatchHandler(events: events, refused: access.refused)
        return [
            event("/native/events", events.post(.native), admitsServices: true),
            event(
                "/native/events/batch", batch.post, bodyBytesMax: RequestLimits.batchBytesMax, admitsServices: true),
            write(.post, "/native/sessions", limit: .registrations, sessions.post),
            read("/native/sessions", journeys.sessions),
            read("/native/sessions/{session_id}", journeys.timeline),
            service(
                "/native/sessions/{session_id}/verification-code", sessionCodes.issue),
            write(.post, "/native/sessions/{session_id}/verify", limit: .registrations, sessionCodes.verify),
            read("/native/session", journeys.current),
            read("/native/session/stream", stream.get),
            fromMemory("/native/config", config.get),
            write(.put, "/native/devices/{token}", limit: .devices, signIn.devices.put),
            write(.delete, "/native/devices/{token}", limit: .devices, signIn.devices.delete),
            write(.post, "/native/purchases", limit: .purchases, purchases.post),
            write(.put, "/native/purchases/consent", limit: .purchases, purchases.putConsent),
            read("/native/entitlements", purchases.entitlements),

            // The routes of shipped v1 clients. Their handlers are those of the routes under /native.
            event("/v1/native/session-events", events.post(.v1Session)),
            event("/v1/native/pre-session-events", events.post(.v1PreSession)),
            fromMemory("/v1/native/config", config.get),

            write(.post, "/native/background-ping", limit: .pings, backgroundPing.post),
            write(.post, "/v1/native/background-ping", limit: .pings, backgroundPing.post),
            write(.post, "/v1/charging-sessions/background-ping", limit: .pings, backgroundPing.post),

            // The sign-in routes. Each of them is limited per client address.
            signingIn("/auth/apple", wants: .identityToken, signIn.apple.signIn),
            signingIn("/auth/otp/start", wants: .none, signIn.codes.start),
            signingIn("/auth/otp/verify", wants: .oneTimeCode, signIn.codes.verify(for: .current)),
            signingIn("/auth/refresh", wants: .refreshToken, signIn.sessions.refresh(for: .current)),
            account(.post, "/auth/logout", limit: .account, signIn.sessions.signOut),
            account(.get, "/auth/sessions", limit: .reads, signIn.sessions.list),
            account(.delete, "/auth/sessions/{id}", limit: .account, signIn.sessions.end),
            account(.get, "/auth/me", limit: .reads, signIn.accounts.show),
            account(.patch, "/auth/me", limit: .account, signIn.accounts.change),
            account(.put, "/auth/me", limit: .account, signIn.accounts.replace),
            account(.delete, "/auth/me", limit: .account, signIn.accounts.erase),
            // The limit is `account`, not `reads`, because the export reads all data about the driver and writes an
            // audit entry.
            account(.get, "/auth/me/export", limit: .account, signIn.accounts.export),

            signingIn("/apple/notifications", wants: .appleNotice, signIn.apple.takeNotice),
            storeNotification("/apple/store-notifications", purchases.takeNotification),

            // The sign-in routes of shipped v1 clients. Their access tokens have a longer lifetime than those of /auth.
            signingIn("/v1/auth/otp/start", wants: .none, signIn.codes.start),
            signingIn("/v1/auth/otp/verify", wants: .oneTimeCode, signIn.codes.verify(for: .v1)),
            signingIn("/v1/auth/refresh", wants: .refreshToken, signIn.sessions.refresh(for: .v1)),

            // The routes of shipped clients that use a single token.
            signingIn("/api/auth/apple", wants: .identityToken, signIn.apple.legacySignIn, form: .legacy),
            signingIn("/api/auth/refresh", wants: .singleToken, signIn.sessions.legacyRefresh, form: .legacy),
            account(.post, "/api/auth/validate", limit: .reads, signIn.accounts.legacyShow, form: .legacy),
            account(.get, "/api/auth/me", limit: .reads, signIn.accounts.legacyShow, form: .legacy),
            account(.delete, "/api/auth/me", limit: .account, signIn.accounts.legacyErase, form: .legacy),
            signingIn("/api/auth/send-code", wants: .none, signIn.codes.legacyStart, form: .legacy),
            signingIn("/api/auth/verify-code", wants: .oneTimeCode, signIn.codes.legacyVerify, form: .legacy),
            account(.get, "/api/drivers/profile", limit: .reads, signIn.accounts.legacyShow, form: .legacy),
            account(.put, "/api/drivers/profile", limit: .account, signIn.accounts.legacyChange, form: .legacy),
            account(.post, "/api/push/register-token", limit: .devices, signIn.devices.legacyPut, form: .legacy),

            // The operator's routes.
            operatorOnly("/ops/picture", operation.one),
            operatorOnly("/ops/stream", operation.stream),
            operatorOnly("/ops/settings", operation.versions),
            operatorOnly("/ops/history", lists.history),
            operatorOnly("/ops/drivers", lists.drivers),
            operatorOnly("/ops/drivers/{driver_id}", lists.driver),
            operatorOnly("/ops/sessions", lists.sessions),
            operatorOnly("/ops/config", operation.inForce),
            operatorOnly("/ops/sessions/{session_id}", operation.timeline),
            operatorOnly("/ops/events", lists.events),
            operatorOnly("/ops/refusals", lists.refusals),
            operatorOnly("/ops/search", method: .post, lists.search),

            anyone("/.well-known/jwks.json") { [signIn] _ in signIn.keySet },
            anyone(AppLinks.applePath, links.appleAssociation),
            anyone(AppLinks.androidPath, links.androidStatements),
            anyone("/healthz") { _ in HealthHandler.alive },
        ] + PublicPageName.allCases.map { anyone($0.path, links.page($0)) }
            + PageHandlers.pages.map { path, page in anyone(path, page.response(to:)) }
    }

    /// Renders the response to a request that reached no handler.
    package var refusals: RefusalRenderer {
        { refused in
            ProblemResponse(refused).response(requestID: refused.requestID, ProblemForm(path: refused.path))
        }
    }

    // MARK: The kinds of routes, with the credential and the limits of each

    private func anyone(_ template: String, _ handler: @escaping @Sendable (Request) -> Response) -> Endpoint {
        Endpoint(
            route: Route(.get, template, responder: { .response(handler($0)) }), credential: .none, limits: [])
    }

    /// Returns a GET route for drivers. Its handler reads only memory. The route has no limit, because a refusal would
    /// take as much work as a response.
    private func fromMemory(
        _ template: String, _ respond: @escaping @Sendable (Request, Caller) -> Response
    ) -> Endpoint {
        Endpoint(
            route: Route(.get, template, credential: access.driver({ .response(respond($0, $1)) }, route: template)),
            credential: .accessToken, limits: [])
    }

    /// Returns a GET route with which drivers read from the database.
    private func read(_ template: String, _ handler: @escaping CallerHandler) -> Endpoint {
        driver(.get, template, limit: .reads, handler)
    }

    /// Returns a route with which drivers change something.
    private func write(
        _ method: WritingMethod, _ template: String, limit: RateLimitClass, _ handler: @escaping CallerHandler
    ) -> Endpoint {
        driver(method.method, template, limit: limit, handler)
    }

    private func driver(
        _ method: Method, _ template: String, limit: RateLimitClass, _ handler: @escaping CallerHandler
    ) -> Endpoint {
        let limited = access.driver(driverLimit.limited(limit, handler), route: template)
        return Endpoint(
            route: Route(method, template, credential: limited), credential: .accessToken, limits: [limit])
    }

    /// Returns a route for services, limited like their events.
    private func service(_ template: String, _ handler: @escaping CallerHandler) -> Endpoint {
        let limited = access.service(driverLimit.limited(.serviceEvents, handler), route: template)
        return Endpoint(
            route: Route(.post, template, credential: limited), credential: .serviceToken, limits: [.serviceEvents])
    }

    /// Returns a route for operators. No such route changes anything. The search is a POST only because proxies log
    /// URLs, and the search text must not be logged.
    private func operatorOnly(
        _ template: String, method: Method = .get, _ handler: @escaping OpenHandler
    ) -> Endpoint {
        Endpoint(
            route: Route(method, template, credential: access.operatorOnly(handler)), credential: .operatorToken,
            limits: [.operatorGuesses])
    }

    /// Returns a route for the account of a signed-in driver. A request counts first towards the limit of its client
    /// address, and then towards the limit of its driver.
    private func account(
        _ method: Method, _ template: String, limit: RateLimitClass, _ handler: @escaping CallerHandler,
        form: ProblemForm = .plain
    ) -> Endpoint {
        let check = access.driver(driverLimit.limited(limit, form: form, handler), route: template, form: form)
        let route = Route(
            method, template, bodyBytesMax: RequestLimits.signInBytesMax,
            credential: addressLimit.limited(form, route: template, check))
        return Endpoint(route: route, credential: .accessToken, limits: [.auth, limit])
    }

    /// Returns a sign-in route. The service that the handler calls verifies the credential, so `Access` does not verify
    /// it.
    private func signingIn(
        _ template: String, wants credential: Credential, _ handler: @escaping OpenHandler, form: ProblemForm = .plain
    ) -> Endpoint {
        let handler = access.anyone(handler, route: template, form: form)
        let route = Route(
            .post, template, bodyBytesMax: RequestLimits.signInBytesMax,
            handler: addressLimit.limited(form, route: template, handler))
        return Endpoint(route: route, credential: credential, limits: [.auth])
    }

    /// Returns the route on which Apple's server sends notifications about purchases. Apple uses only a few addresses,
    /// so only refused notifications count towards the limit of the address (`RefusedNotificationLimit`).
    private func storeNotification(_ template: String, _ handler: @escaping OpenHandler) -> Endpoint {
        let handler = access.anyone(handler, route: template)
        let route = Route(.post, template, handler: handler)
        return Endpoint(route: route, credential: .storeNotification, limits: [.notifications])
    }

    /// Returns a route whose limits count events, not requests. If the driver has reached the limit on refused events
    /// (`RefusalLimit`), the server refuses the request without reading its content.
    private func event(
        _ template: String, _ respond: @escaping CallerResponder, bodyBytesMax: Int = Route.defaultBodyBytesMax,
        admitsServices: Bool = false
    ) -> Endpoint {
        let check = access.driver(respond, route: template, admitsServices: admitsServices) { [refusalLimit] driver in
            refusalLimit.exhausted(by: driver).map(ProblemResponse.tooManyRefusals)
        }
        return Endpoint(
            route: Route(.post, template, bodyBytesMax: bodyBytesMax, credential: check), credential: .accessToken,
            limits: RateLimitClass.ofEvents)
    }
}
