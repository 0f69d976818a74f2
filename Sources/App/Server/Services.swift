// The parts of the server that are started and stopped, as services of one ServiceGroup (swift-service-lifecycle).

import HTTPServer
import RateLimiting
import ServiceLifecycle

/// Listens until the group shuts down, then drains.
struct ServerService: Service {
    let server: Server
    /// The maximum duration of the drain in seconds. The whole shutdown takes longer, because the other services end
    /// after the drain.
    let drainSeconds: Int
    /// Receives the number of connections that were closed at the end of the drain.
    var outcome = DrainOutcome()

    func run() async throws {
        _ = try await server.start()
        try? await gracefulShutdown()
        outcome.add(await server.drain(withinSeconds: drainSeconds))
    }
}

/// Maintains the connections to Redis.
struct RedisService: Service {
    let admission: RedisRateLimiter

    func run() async throws {
        await cancelWhenGracefulShutdown { await admission.run() }
    }
}

/// Runs a loop until the group shuts down. The loop may return earlier if it has nothing left to do.
struct LoopService: Service {
    let loop: @Sendable () async -> Void
    var end: @Sendable () async -> Void = {}

    func run() async throws {
        await cancelWhenGracefulShutdown { await loop() }
        // Wait for the shutdown even if the loop has returned, because the whole group ends as soon as one of its
        // services ends.
        try? await gracefulShutdown()
        await end()
    }
}

/// Closes a resource, for example an HTTP client, at the shutdown. Services end in the reverse order of their start, so
/// the services that use the resource must start after this service.
struct ClosingService: Service {
    let close: @Sendable () async -> Void

    func run() async throws {
        try? await gracefulShutdown()
        await close()
    }
}
