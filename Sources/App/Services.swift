// The parts that start and stop, as services of one group (swift-service-lifecycle).

import HTTPServer
import RedisAdmission
import ServiceLifecycle

/// Listens until the group shuts down, then drains.
struct ServerService: Service {
    let server: Server
    /// Less than the time that the whole process has: the store still has to close after it.
    let drainSeconds: Int
    /// Told how many connections were cut.
    var outcome = DrainOutcome()

    func run() async throws {
        _ = try await server.start()
        try? await gracefulShutdown()
        outcome.add(await server.drain(withinSeconds: drainSeconds))
    }
}

/// Keeps the connections to Redis.
struct RedisService: Service {
    let admission: RedisRateLimiter

    func run() async throws {
        await cancelWhenGracefulShutdown { await admission.run() }
    }
}

/// Does something again and again until the group shuts down.
struct LoopService: Service {
    let loop: @Sendable () async -> Void
    var end: @Sendable () async -> Void = {}

    func run() async throws {
        await cancelWhenGracefulShutdown { await loop() }
        await end()
    }
}

/// Has nothing to do but to close something once everything that started after it has ended.
struct ClosingService: Service {
    let close: @Sendable () async -> Void

    func run() async throws {
        try? await gracefulShutdown()
        await close()
    }
}
