// The whole surface on one screen: method, path, who may, limits, handler.

package import Engine
import HTTP1
package import HTTPServer
package import Identity
package import JourneyModel
package import Logging

/// Everything the routes need, filled in by whoever wires the server.
package struct API: Sendable {
    private let access: Access
    private let events: EventHandlers
    private let sessions: SessionsHandler
    private let journeys: JourneyHandlers
    private let stream: StreamHandler
    private let config: ConfigHandler
    private let limits: RateLimits

    /// `clock` is for what is written long after a request came: the messages of a stream.
    package init(
        ingest: Ingest, store: any EventStore, journeys: any JourneyReader, streams: JourneyStreams,
        settings: SettingsInForce, limits: RateLimits, tokens: any TokenVerifier,
        clock: @escaping @Sendable () -> Moment, logger: Logger
    ) {
        access = Access(tokens: tokens, logger: logger)
        events = EventHandlers(ingest: ingest, logger: logger)
        sessions = SessionsHandler(store: store)
        self.journeys = JourneyHandlers(journeys: journeys, settings: settings, logger: logger)
        stream = StreamHandler(journeys: journeys, streams: streams, tokens: tokens, clock: clock, logger: logger)
        config = ConfigHandler(settings: settings)
        self.limits = limits
    }

    package var routes: [Route] {
        let batch = BatchHandler(events: events)
        return [
            event(.post, "/native/events", events.post(.native)),
            event(.post, "/native/events/batch", batch.post, bodyBytesMax: RequestLimits.batchBytesMax),
            Route(.post, "/native/sessions", handler: access.driver(sessions.post)),
            Route(.get, "/native/sessions", handler: access.driver(journeys.sessions)),
            Route(.get, "/native/sessions/{session_id}", handler: access.driver(journeys.timeline)),
            Route(.get, "/native/session", handler: access.driver(journeys.standing)),
            Route(.get, "/native/session/stream", handler: access.driver(stream.get)),
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

    /// A rate-limited route: every answer names the policy, and how the driver stands once it is known who that is
    /// (contract, section 4).
    private func event(
        _ method: Method, _ template: String, _ handler: @escaping CallerHandler,
        bodyBytesMax: Int = RequestLimits.eventBytesMax
    ) -> Route {
        let policy = RateLimitFields.policy(limits)
        let ingest = events.ingest
        let admitted = access.driver { request, caller throws(ProblemAnswer) in
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
        }
        return Route(method, template, bodyBytesMax: bodyBytesMax) { request in
            var response = await admitted(request)
            if let policy { response.fields.append("RateLimit-Policy", policy) }
            return response
        }
    }
}
