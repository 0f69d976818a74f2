// The whole surface on one screen: method, path, who may, limits, handler.

package import Engine
import HTTP1
package import HTTPServer
package import Identity
import JourneyModel
package import Logging

/// Everything the routes need, filled in by whoever wires the server.
package struct API: Sendable {
    private let access: Access
    private let events: EventHandlers
    private let sessions: SessionsHandler
    private let config: ConfigHandler
    private let limits: RateLimits

    package init(
        ingest: Ingest, store: any EventStore, settings: SettingsInForce, limits: RateLimits,
        tokens: any TokenVerifier, logger: Logger
    ) {
        access = Access(tokens: tokens)
        events = EventHandlers(ingest: ingest, logger: logger)
        sessions = SessionsHandler(store: store)
        config = ConfigHandler(settings: settings)
        self.limits = limits
    }

    package var routes: [Route] {
        let batch = BatchHandler(events: events)
        return [
            event(.post, "/native/events", events.post(.native)),
            event(.post, "/native/events/batch", batch.post, bodyBytesMax: RequestLimits.batchBytesMax),
            Route(.post, "/native/sessions", handler: access.driver(sessions.post)),
            Route(.get, "/native/config", handler: access.driver(config.get)),

            // Shipped v1 clients: the same handlers behind the old names.
            event(.post, "/v1/native/session-events", events.post(.v1Session)),
            event(.post, "/v1/native/pre-session-events", events.post(.v1PreSession)),
            Route(.get, "/v1/native/config", handler: access.driver(config.get)),

            Route(.get, "/healthz", handler: access.anyone { _ throws(ProblemAnswer) in HealthHandler.alive }),
        ]
    }

    /// What a request that reaches no handler is answered with.
    package var refusals: RefusalRenderer {
        { refused in ProblemAnswer(refused).response(requestID: refused.requestID) }
    }

    /// A rate-limited route: every answer names the policy (contract, section 4).
    private func event(
        _ method: Method, _ template: String, _ handler: @escaping CallerHandler,
        bodyBytesMax: Int = RequestLimits.eventBytesMax
    ) -> Route {
        let policy = RateLimitFields.policy(limits)
        let admitted = access.driver(handler)
        return Route(method, template, bodyBytesMax: bodyBytesMax) { request in
            var response = await admitted(request)
            if let policy { response.fields.append("RateLimit-Policy", policy) }
            return response
        }
    }
}
