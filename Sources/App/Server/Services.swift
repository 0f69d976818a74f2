// The parts that start and stop, as services of one ServiceGroup (swift-service-lifecycle).

import HTTPServer
import RateLimiting
import ServiceLifecycle

/// Listens until the group shuts down, then drains.
struct ServerService: Service {
    let server: Server
    /// Seconds for the drain. Less than the shutdown time of the whole process, because the store closes after the
    /// drain.
    let drainSeconds: Int
    /// Receives the number of connections that were cut.
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

/// Runs a loop until the group shuts down. A loop may return earlier when it has nothing left to do.
struct LoopService: Service {
    let loop: @Sendable () async -> Void
    var end: @Sendable () async -> Void = {}

    func run() async throws {
        await cancelWhenGracefulShutdown { await loop() }
        // Wait here: a service that returns before the shutdown would end the whole group.
        try? await gracefulShutdown()
        await end()
    }
}

/// Closes something once every service that started after it has ended.
struct ClosingService: Service {
    let close: @Sendable () async -> Void

    func run() async throws {
        try? await gracefulShutdown()
        await close()
    }
}
