// Tests in which Redis hangs, restarts empty, is read-only, full or flushed, or never starts. No event is lost, no
// response is wrong, and no request waits longer than the timeout. Recovery is automatic.

import JourneyModel
import Logging
import Sockets
import Testing

@testable import RateLimiting

#if canImport(Glibc)
    import Glibc
#endif

extension WithRedis {
    struct RedisOutageTests {
        private static let limits = RateLimits(sessionEvents: 5, windowSeconds: 600)

        private func servesAgain(_ admission: RedisRateLimiter) async -> Bool {
            await eventually { admission.status.connections == 2 && admission.status.breaker == .closed }
        }

        @Test func hungRedisCostsOneTimeoutAndThenNothing() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, Self.limits, timeoutMilliseconds: 50) { admission in
                    #expect(await admission.admit(claim("a")).quota.remaining == 4)
                    server.signal(SIGSTOP)
                    let begin = ContinuousClock.now
                    for number in 0..<200 {
                        let decision = await admission.admit(claim("k", of: "driver \(number)"))
                        #expect(decision.verdict == .admitted)
                        #expect(decision.quota.remaining == 4)
                    }
                    // Each of the two connections waits for the timeout once. After that, the process decides at once.
                    // If each of the 200 calls waited 50 ms, the calls would take ten seconds.
                    #expect(ContinuousClock.now - begin < .milliseconds(5000))
                    #expect(await admission.admit(claim("b")).quota.remaining == 3)
                    #expect(await eventually { admission.status.breaker != .closed })
                    #expect(!admission.status.isConnected)

                    server.signal(SIGCONT)
                    #expect(await servesAgain(admission))
                    let before = admission.status.decisionsByRedis
                    #expect(await admission.admit(claim("c")).quota.remaining == 2)
                    #expect(admission.status.decisionsByRedis == before + 1)
                }
            }
        }

        @Test func clientsThatGoAwayAreNoFailureOfRedis() async throws {
            try await RedisServer.with { server in
                try await FaultyProxy.with(server) { proxy in
                    try await withAdmission(server, proxy.endpoint, Self.limits, timeoutMilliseconds: 20_000) {
                        admission in
                        proxy.fault = .stall
                        // A cancelled call is not a failure of Redis. If it counted as one, these calls, which the test
                        // cancels below, would open the circuit breaker.
                        let waiting = (0..<8).map { number in
                            Task { await admission.admit(claim("k\(number)", of: "gone \(number)")) }
                        }
                        // Wait until Redis has decided about each call. The calls then wait only for the replies.
                        for number in 0..<8 {
                            let window = RedisKeys.window(of: claim("k\(number)", of: "gone \(number)"))
                            #expect(await eventually { (try? await server.command("EXISTS", window)) == .integer(1) })
                        }
                        #expect(admission.status.decisionsInProcess == 0)
                        for task in waiting { task.cancel() }
                        for task in waiting { #expect(await task.value.verdict == .admitted, "the process decides") }
                        #expect(admission.status.decisionsInProcess == 8)
                        #expect(admission.status.breaker == .closed && admission.status.timeouts == 0)
                        #expect(admission.status.connections == 2)
                    }
                }
            }
        }

        @Test func redisThatRestartsEmptyIsPutRight() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, Self.limits) { admission in
                    for key in ["a", "b", "c"] { _ = await admission.admit(claim(key)) }
                    admission.recordStored(claim("a"), isRepeat: true)
                    server.stop()
                    #expect(await admission.admit(claim("d")).quota.remaining == 1)
                    #expect(await eventually { admission.status.breaker != .closed })

                    try await server.start()
                    #expect(await servesAgain(admission))
                    #expect(try await server.command("KEYS", "dwell:{[^%]*") == .array([]))
                    #expect(await admission.admit(claim("a")).verdict == .known)
                    #expect(await admission.admit(claim("b")).verdict == .known)
                    let last = await admission.admit(claim("e"))
                    #expect(last.verdict == .admitted)
                    #expect(last.quota.remaining == 0)
                    #expect(await admission.admit(claim("f")).verdict == .refused)
                    #expect(admission.status.decisionsCorrected == 3)
                }
            }
        }

        @Test func flushedRedisIsPutRight() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, Self.limits) { admission in
                    for number in 0..<5 { _ = await admission.admit(claim("k\(number)")) }
                    try await server.command("FLUSHALL")
                    let refused = await admission.admit(claim("one more"))
                    #expect(refused.verdict == .refused)
                    #expect(refused.quota.remaining == 0)
                    #expect(refused.quota.resetMilliseconds > 0)
                    #expect(
                        await eventually {
                            (try? await server.command("ZCARD", RedisKeys.window(of: claim("x")))) == .integer(0)
                        }, "the charge of the refused claim is taken back")
                }
            }
        }

        @Test func readOnlyReplicaDecidesNothing() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, Self.limits) { admission in
                    #expect(await admission.admit(claim("a")).quota.remaining == 4)
                    try await server.command("REPLICAOF", "127.0.0.1", "1")
                    for number in 0..<4 {
                        #expect(await admission.admit(claim("r\(number)")).quota.remaining == 3 - number)
                    }
                    #expect(await admission.admit(claim("x")).verdict == .refused)
                    #expect(await eventually { admission.status.breaker != .closed })
                    #expect(admission.status.decisionsByRedis == 1)

                    try await server.command("REPLICAOF", "NO", "ONE")
                    #expect(await servesAgain(admission))
                    #expect(await admission.admit(claim("y")).verdict == .refused, "Redis knows of one charge only")
                    #expect(admission.status.decisionsCorrected == 1)
                }
            }
        }

        @Test func fullRedisDecidesNothing() async throws {
            try await RedisServer.with(["--maxmemory-policy", "noeviction"]) { server in
                try await withAdmission(server, nil, Self.limits) { admission in
                    #expect(await admission.admit(claim("a")).quota.remaining == 4)
                    try await server.command("CONFIG", "SET", "maxmemory", "1")
                    for number in 0..<4 {
                        #expect(await admission.admit(claim("f\(number)")).quota.remaining == 3 - number)
                    }
                    #expect(await eventually { admission.status.breaker != .closed })
                    #expect(admission.status.errorReplies >= 3)

                    try await server.command("CONFIG", "SET", "maxmemory", "0")
                    #expect(await servesAgain(admission))
                    #expect(await admission.admit(claim("x")).verdict == .refused)
                }
            }
        }

        /// A key of the limiter holds a value of another type. The limiter in the process then decides for that driver.
        @Test func foreignValueUnderOurKeyIsNoWrongAnswer() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, Self.limits) { admission in
                    try await server.command("SET", RedisKeys.window(of: claim("a")), "not a set")
                    for number in 0..<5 {
                        #expect(await admission.admit(claim("k\(number)")).quota.remaining == 4 - number)
                    }
                    #expect(await admission.admit(claim("x")).verdict == .refused)
                }
            }
        }

        @Test func redisThatWasNeverThereIsNotWaitedFor() async throws {
            try await RedisServer.with { server in
                server.stop()
                let admission = RedisRateLimiter(
                    endpoint: try server.endpoint, timeoutMilliseconds: 5000,
                    fallback: LocalRateLimiter(limits: Self.limits), loops: server.loops, keyedHash: testHash,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                #expect(await admission.admit(claim("before run")).quota.remaining == 4)
                let running = Task { await admission.run() }
                #expect(await eventually { admission.status.breaker != .closed })
                let begin = ContinuousClock.now
                for number in 0..<4 {
                    #expect(await admission.admit(claim("k\(number)")).quota.remaining == 3 - number)
                }
                #expect(ContinuousClock.now - begin < .milliseconds(4000))
                try await server.start()
                #expect(await servesAgain(admission))
                running.cancel()
                await running.value
            }
        }

        @Test func wrongPasswordMeansTheProcessDecides() async throws {
            try await RedisServer.with(["--requirepass", "s3cret", "--protected-mode", "no"]) { server in
                let admission = RedisRateLimiter(
                    endpoint: try RedisEndpoint(parsing: "unix://:wrong@\(server.socketPath)"),
                    fallback: LocalRateLimiter(limits: Self.limits), loops: server.loops, keyedHash: testHash,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                let running = Task { await admission.run() }
                #expect(await eventually { admission.status.breaker != .closed })
                #expect(await admission.admit(claim("a")).verdict == .admitted)
                #expect(!admission.status.isConnected)
                running.cancel()
                await running.value
            }
        }
    }
}
