// The whole surface on one screen: method, path, who may, limits, handler. (/readyz and /metrics, which may have a
// listener of their own, are in OperatorRoutes.)

package import CoreMetrics
package import Engine
import HTTP1
package import HTTPServer
package import Identity
package import JourneyModel
package import Logging

/// Everything the routes need, filled in by whoever wires the server.
package struct API: Sendable {
    private let access: Access
    private let addressLimit: AddressLimit
    private let events: EventHandlers
    private let sessions: SessionsHandler
    private let journeys: JourneyHandlers
    private let stream: StreamHandler
    private let config: ConfigHandler
    private let backgroundPing: BackgroundPingHandler
    private let signIn: SignInHandlers
    private let operation: OperatorHandlers
    private let lists: OperatorListHandlers
    private let limits: RateLimits

    /// `clock` is for what is written long after a request came: the messages of a stream.
    package init(
        ingest: Ingest, store: any EventStore, journeys: any JourneyReader, streams: JourneyStreams,
        settings: SettingsInForce, limits: RateLimits, admission: any Admission, tokens: any TokenVerifier,
        signIn: SignInServices, operation: OperatorParts, clock: @escaping @Sendable () -> Moment, logger: Logger,
        metrics: any MetricsFactory = NOOPMetricsHandler.instance
    ) {
        access = Access(
            tokens: tokens, operatorToken: operation.token, metrics: TokenMetrics(metrics), refused: operation.refused)
        addressLimit = AddressLimit(admission: admission, limits: limits)
        events = EventHandlers(ingest: ingest, logger: logger)
        sessions = SessionsHandler(store: store)
        self.journeys = JourneyHandlers(journeys: journeys, settings: settings, logger: logger)
        stream = StreamHandler(journeys: journeys, streams: streams, tokens: tokens, clock: clock, logger: logger)
        config = ConfigHandler(settings: settings)
        backgroundPing = BackgroundPingHandler(metrics)
        self.signIn = SignInHandlers(signIn, logger: logger)
        self.operation = OperatorHandlers(
            operation, settings: settings, access: access, isEnding: { streams.isClosed }, clock: clock, logger: logger)
        lists = OperatorListHandlers(operation: operation, clock: clock, logger: logger)
        self.limits = limits
    }

    package var routes: [Route] { surface.map(\.route) }

    /// How many operators are streamed to.
    package var operatorStreamCount: Int { operation.streamCount }

    /// Every route with the credential that it wants.
    package var surface: [Endpoint] {
        let batch = BatchHandler(events: events, refused: access.refused)
        return [
            event(.post, "/native/events", events.post(.native)),
            event(.post, "/native/events/batch", batch.post, bodyBytesMax: RequestLimits.batchBytesMax),
            driver(.post, "/native/sessions", sessions.post),
            driver(.get, "/native/sessions", journeys.sessions),
            driver(.get, "/native/sessions/{session_id}", journeys.timeline),
            driver(.get, "/native/session", journeys.standing),
            driver(.get, "/native/session/stream", stream.get),
            driver(.get, "/native/config", atOnce: config.get),
            driver(.put, "/native/devices/{token}", signIn.devices.put),
            driver(.delete, "/native/devices/{token}", signIn.devices.delete),

            // Shipped v1 clients: the same handlers behind the old names.
            event(.post, "/v1/native/session-events", events.post(.v1Session)),
            event(.post, "/v1/native/pre-session-events", events.post(.v1PreSession)),
            driver(.get, "/v1/native/config", atOnce: config.get),

            driver(.post, "/native/background-ping", backgroundPing.post),
            driver(.post, "/v1/native/background-ping", backgroundPing.post),
            driver(.post, "/v1/charging-sessions/background-ping", backgroundPing.post),

            // Signing in: limited by address, each of them.
            account(.post, "/auth/apple", wants: .identityToken, signIn.apple.signIn),
            account(.post, "/auth/otp/start", wants: .none, signIn.codes.start),
            account(.post, "/auth/otp/verify", wants: .oneTimeCode, signIn.codes.verify(for: .current)),
            account(.post, "/auth/refresh", wants: .refreshToken, signIn.sessions.refresh(for: .current)),
            account(.post, "/auth/logout", signIn.sessions.signOut),
            account(.get, "/auth/sessions", signIn.sessions.list),
            account(.delete, "/auth/sessions/{id}", signIn.sessions.end),
            account(.get, "/auth/me", signIn.accounts.show),
            account(.patch, "/auth/me", signIn.accounts.change),
            account(.put, "/auth/me", signIn.accounts.replace),
            account(.delete, "/auth/me", signIn.accounts.erase),
            account(.get, "/auth/me/export", signIn.accounts.export),

            account(.post, "/apple/notifications", wants: .appleNotice, signIn.apple.takeNotice),

            // Shipped v1 clients: their access token lives longer.
            account(.post, "/v1/auth/otp/start", wants: .none, signIn.codes.start),
            account(.post, "/v1/auth/otp/verify", wants: .oneTimeCode, signIn.codes.verify(for: .v1)),
            account(.post, "/v1/auth/refresh", wants: .refreshToken, signIn.sessions.refresh(for: .v1)),

            // Shipped clients with a single token.
            account(.post, "/api/auth/apple", wants: .identityToken, signIn.apple.legacySignIn, form: .legacy),
            account(.post, "/api/auth/refresh", wants: .singleToken, signIn.sessions.legacyRefresh, form: .legacy),
            account(.post, "/api/auth/validate", signIn.accounts.legacyShow, form: .legacy),
            account(.get, "/api/auth/me", signIn.accounts.legacyShow, form: .legacy),
            account(.delete, "/api/auth/me", signIn.accounts.legacyErase, form: .legacy),
            account(.post, "/api/auth/send-code", wants: .none, signIn.codes.legacyStart, form: .legacy),
            account(.post, "/api/auth/verify-code", wants: .oneTimeCode, signIn.codes.legacyVerify, form: .legacy),
            account(.get, "/api/drivers/profile", signIn.accounts.legacyShow, form: .legacy),
            account(.put, "/api/drivers/profile", signIn.accounts.legacyChange, form: .legacy),
            account(.post, "/api/push/register-token", signIn.devices.legacyPut, form: .legacy),

            // Whoever runs the server.
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

            anyone(.get, "/.well-known/jwks.json") { [signIn] _ in signIn.keySet },
            anyone(.get, "/healthz") { _ in HealthHandler.alive },
        ] + PageHandlers.pages.map { path, page in anyone(.get, path, page.answer) }
    }

    /// What a request that reaches no handler is answered with.
    package var refusals: RefusalRenderer {
        { refused in ProblemAnswer(refused).response(requestID: refused.requestID) }
    }

    // MARK: The kinds of routes. Which credential is wanted is said where it is asked for.

    private func anyone(
        _ method: Method, _ template: String, _ handler: @escaping @Sendable (Request) -> Response
    ) -> Endpoint {
        let route = Route(method, template, atOnce: { handler($0) }, handler: { handler($0) })
        return Endpoint(route: route, credential: .none)
    }

    /// A route whose answer needs no waiting.
    private func driver(_ method: Method, _ template: String, atOnce answer: @escaping CallerAnswer) -> Endpoint {
        let handler = access.driver(
            { request, caller throws(ProblemAnswer) in answer(request, caller) }, route: template)
        let route = Route(method, template, atOnce: access.driverAtOnce(answer, route: template), handler: handler)
        return Endpoint(route: route, credential: .accessToken)
    }

    private func driver(_ method: Method, _ template: String, _ handler: @escaping CallerHandler) -> Endpoint {
        Endpoint(
            route: Route(method, template, handler: access.driver(handler, route: template)), credential: .accessToken)
    }

    private func operatorOnly(
        _ template: String, method: Method = .get, _ handler: @escaping OpenHandler
    ) -> Endpoint {
        Endpoint(
            route: Route(
                method, template, bodyBytesMax: AccountBody.bytesMax, handler: access.operatorOnly(handler)),
            credential: .operatorToken)
    }

    /// A route of signing in, for a signed-in driver.
    private func account(
        _ method: Method, _ template: String, _ handler: @escaping CallerHandler, form: ProblemForm = .plain
    ) -> Endpoint {
        limited(method, template, access.driver(handler, route: template, form: form), form, wants: .accessToken)
    }

    /// A route of signing in whose credential is judged by what is behind the handler.
    private func account(
        _ method: Method, _ template: String, wants credential: Credential, _ handler: @escaping OpenHandler,
        form: ProblemForm = .plain
    ) -> Endpoint {
        limited(method, template, access.anyone(handler, route: template, form: form), form, wants: credential)
    }

    private func limited(
        _ method: Method, _ template: String, _ handler: @escaping RequestHandler,
        _ form: ProblemForm, wants credential: Credential
    ) -> Endpoint {
        Endpoint(
            route: Route(
                method, template, bodyBytesMax: AccountBody.bytesMax, handler: addressLimit.limited(form, handler)),
            credential: credential)
    }

    /// A rate-limited route: every answer names the policy, and how the driver stands once it is known who that is
    /// (contract, section 4).
    private func event(
        _ method: Method, _ template: String, _ handler: @escaping CallerHandler,
        bodyBytesMax: Int = RequestLimits.eventBytesMax
    ) -> Endpoint {
        let policy = RateLimitFields.policy(limits)
        let ingest = events.ingest
        let admitted = access.driver(
            { request, caller throws(ProblemAnswer) in
                var response: Response
                do throws(ProblemAnswer) {
                    response = try await handler(request, caller)
                } catch {
                    response = error.response(requestID: request.id)
                }
                if response.fields.first("RateLimit") == nil,
                    let standing = RateLimitFields.standing(ingest.standing(of: caller.driver))
                {
                    response.fields.append("RateLimit", standing)
                }
                return response
            }, route: template)
        let route = Route(method, template, bodyBytesMax: bodyBytesMax) { request in
            var response = await admitted(request)
            if let policy { response.fields.append("RateLimit-Policy", policy) }
            return response
        }
        return Endpoint(route: route, credential: .accessToken)
    }
}
