// Tests decisions through a real Redis, and their effect in Redis. `RedisFaultTests` and `RedisOutageTests` test
// failures.

import JourneyModel
import Logging
import Sockets
import Testing

@testable import RateLimiting

func claim(_ key: String, of driver: String = "ann", _ limitClass: RateLimitClass = .sessionEvents) -> AdmissionClaim {
    AdmissionClaim(driver: DriverID(driver), limitClass: limitClass, idempotencyKey: key)
}

/// Stands for the keyed hash of the server. Returns an FNV-1a hash of at most 16 hexadecimal digits.
@Sendable func testHash(_ text: String) -> String {
    let hash = text.utf8.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    return String(hash, radix: 16)
}

/// Runs the body with a new rate limiter whose Redis connections are established.
func withAdmission<Answer>(
    _ server: RedisServer, _ endpoint: RedisEndpoint? = nil, _ limits: RateLimits = RateLimits(),
    timeoutMilliseconds: Int = 2000, _ body: (RedisRateLimiter) async throws -> Answer
) async throws -> Answer {
    let admission = RedisRateLimiter(
        endpoint: try endpoint ?? server.endpoint, timeoutMilliseconds: timeoutMilliseconds,
        fallback: LocalRateLimiter(limits: limits), loops: server.loops, keyedHash: testHash,
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    let running = Task { await admission.run() }
    do {
        try #require(await eventually { admission.status.connections == server.loops.loops.count })
        let answer = try await body(admission)
        running.cancel()
        await running.value
        return answer
    } catch {
        running.cancel()
        await running.value
        throw error
    }
}

extension WithRedis {
    struct RedisRateLimiterTests {
        @Test func decisionsAreMadeInRedisAndSharedByProcesses() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, RateLimits(sessionEvents: 2)) { one in
                    try await withAdmission(server, nil, RateLimits(sessionEvents: 2)) { other in
                        #expect(await one.admit(claim("a")).quota.remaining == 1)
                        #expect(await other.admit(claim("b")).quota.remaining == 0)
                        let refused = await one.admit(claim("c"))
                        #expect(refused.verdict == .refused)
                        #expect((1...60_000).contains(refused.quota.resetMilliseconds))
                        #expect(await other.admit(claim("a")).verdict == .known)
                        #expect(one.status.decisionsByRedis == 2)
                        #expect(one.status.decisionsInProcess == 0)
                    }
                }
            }
        }

        /// In Redis, the charge of a new event contains the event's idempotency key. Storing the key a second time
        /// would double the number of commands and take memory.
        @Test func keyOfANewEventCostsRedisNothingBesideItsCharge() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server) { admission in
                    #expect(await admission.admit(claim("a")).verdict == .admitted)
                    admission.recordStored(claim("a"), isRepeat: false)
                    #expect(await admission.admit(claim("a")).verdict == .known)
                    // The window is deleted in Redis, and with it the charge. This process still knows the key.
                    try await server.command("DEL", RedisKeys.window(of: claim("a")))
                    #expect(await admission.admit(claim("a")).verdict == .known)
                    #expect(admission.status.decisionsCorrected == 1)
                    #expect(try await server.command("EXISTS", RedisKeys.stored(claim("a"))) == .integer(0))
                }
            }
        }

        @Test func refundAndRepeatedKeyReachRedis() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, RateLimits(sessionEvents: 1)) { admission in
                    #expect(await admission.admit(claim("a")).verdict == .admitted)
                    admission.refund(claim("a"))
                    admission.recordStored(claim("s"), isRepeat: true)
                    let window = RedisKeys.window(of: claim("a"))
                    let stored = RedisKeys.stored(claim("s"))
                    #expect(await eventually { (try? await server.command("ZCARD", window)) == .integer(0) })
                    #expect(await eventually { (try? await server.command("EXISTS", stored)) == .integer(1) })
                    let known = await admission.admit(claim("s"))
                    #expect(known.verdict == .known)
                    #expect(known.quota.remaining == 1)
                    #expect(await admission.admit(claim("b")).verdict == .admitted)
                }
            }
        }

        @Test func everyKeyOfADriverWhoIsDeletedGoes() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server) { admission in
                    for driver in ["ann", "bob"] {
                        _ = await admission.admit(claim("a", of: driver))
                        _ = await admission.admit(claim("b", of: driver, .preSessionEvents))
                        admission.recordStored(claim("someone@mail.example", of: driver), isRepeat: true)
                    }
                    let keys = RedisKeys.all(of: DriverID("ann"))
                    let others = RedisKeys.all(of: DriverID("bob"))
                    #expect(await eventually { await count(keys + others, server) == 6 })
                    await admission.forget(DriverID("ann"))
                    #expect(await count(keys, server) == 0)
                    #expect(await count(others, server) == 3)
                    #expect(admission.quota(of: DriverID("ann"), in: .sessionEvents).remaining == 60)
                    #expect(admission.quota(of: DriverID("bob"), in: .sessionEvents).remaining == 59)
                }
            }
        }

        @Test func keysOfADriverWhoWasDeletedWhileRedisWasAwayGoWhenItIsBack() async throws {
            try await RedisServer.with { server in
                let keys = RedisKeys.all(of: DriverID("ann"))
                for key in keys { try await server.command("ZADD", key, "1", "k") }
                let admission = RedisRateLimiter(
                    endpoint: try server.endpoint, timeoutMilliseconds: 2000,
                    fallback: LocalRateLimiter(limits: RateLimits()), loops: server.loops, keyedHash: testHash,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                // The limiter is not connected yet.
                await admission.forget(DriverID("ann"))
                #expect(await count(keys, server) == Int64(keys.count))
                let running = Task { await admission.run() }
                #expect(await eventually { await count(keys, server) == 0 })
                running.cancel()
                await running.value
            }
        }

        private func count(_ keys: [String], _ server: RedisServer) async -> Int64 {
            var count: Int64 = 0
            for key in keys {
                if case .integer(let there)? = try? await server.command("EXISTS", key) { count += there }
            }
            return count
        }

        /// Redis stores the charges for a service's events in a window under the service's id. The deletion of a driver
        /// does not find them there, so this window must not contain the driver's id.
        @Test func driversOfAServiceAreNotNamedInRedis() async throws {
            func claim(_ key: String) -> AdmissionClaim {
                AdmissionClaim(service: DriverID("svc"), driver: DriverID("drv_marta"), idempotencyKey: key)
            }
            try await RedisServer.with { server in
                try await withAdmission(server, nil, RateLimits(serviceEvents: 4)) { one in
                    #expect(await one.admit(claim("a")).verdict == .admitted)
                    one.recordStored(claim("a"), isRepeat: true)
                    #expect(await one.admit(claim("b")).verdict == .admitted)
                    one.forceCharge(claim("b"))
                    one.charge(claim("c"), times: 1)
                    let (window, stored) = (RedisKeys.window(of: claim("")), RedisKeys.stored(claim("")))
                    #expect(await eventually { (try? await server.command("ZCARD", window)) == .integer(4) })
                    #expect(await eventually { (try? await server.command("ZCARD", stored)) == .integer(1) })
                    for key in [window, stored] {
                        guard case .array(let members) = try await server.command("ZRANGE", key, "0", "-1") else {
                            Issue.record("ZRANGE answers an array")
                            return
                        }
                        for case .string(let member) in members { #expect(!member.contains("marta")) }
                    }
                    // Another server finds the same members. A refund removes only the member of its own event.
                    try await withAdmission(server, nil, RateLimits(serviceEvents: 4)) { other in
                        #expect(await other.admit(claim("a")).verdict == .known)
                        #expect(await other.admit(claim("b")).verdict == .known)
                        #expect(await other.admit(claim("d")).verdict == .refused)
                        one.refund(claim("b"))
                        #expect(await eventually { (try? await server.command("ZCARD", window)) == .integer(3) })
                        #expect(await other.admit(claim("d")).verdict == .admitted)
                    }
                }
            }
        }

        /// A server checks the window of refusals without a call to Redis. The reply to the server's own next charge
        /// shows what other servers have charged.
        @Test func refusalsAtOneServerAreKnownAtTheOtherAfterItsFirst() async throws {
            let ann = DriverID("ann")
            func refuse(_ admission: RedisRateLimiter, times: Int) {
                admission.charge(.ofOneRequest(.refusals, by: ann), times: times)
            }
            try await RedisServer.with { server in
                try await withAdmission(server) { one in
                    try await withAdmission(server) { other in
                        refuse(one, times: 300)
                        refuse(other, times: 299)
                        let window = RedisKeys.window(of: .ofOneRequest(.refusals, by: ann))
                        #expect(await eventually { (try? await server.command("ZCARD", window)) == .integer(599) })
                        #expect(!one.quota(of: ann, in: .refusals).isExhausted)
                        refuse(one, times: 1)
                        #expect(await eventually { one.quota(of: ann, in: .refusals).isExhausted })
                        #expect((50_000...60_000).contains(one.quota(of: ann, in: .refusals).resetMilliseconds))
                        #expect(!other.quota(of: ann, in: .refusals).isExhausted)
                        refuse(other, times: 1)
                        #expect(await eventually { other.quota(of: ann, in: .refusals).isExhausted })
                        #expect(!other.quota(of: DriverID("bob"), in: .refusals).isExhausted)
                    }
                }
                // A server that was restarted.
                try await withAdmission(server) { restarted in
                    #expect(!restarted.quota(of: ann, in: .refusals).isExhausted)
                    refuse(restarted, times: 1)
                    #expect(await eventually { restarted.quota(of: ann, in: .refusals).isExhausted })
                    // If the reply to a charge arrives after `forget`, the reply does not create the window again.
                    refuse(restarted, times: 1)
                    await restarted.forget(ann)
                    #expect(!restarted.quota(of: ann, in: .refusals).isExhausted)
                }
            }
        }

        @Test func storedKeysEndOneByOne() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server) { admission in
                    let stored = RedisKeys.stored(claim("k"))
                    guard case .array(let time) = try await server.command("TIME"),
                        case .string(let text)? = time.first, let seconds = Int(text)
                    else { throw CancellationError() }
                    try await server.command("ZADD", stored, String((seconds - 3601) * 1000), "old")
                    try await server.command("ZADD", stored, String((seconds - 3500) * 1000), "young")
                    admission.recordStored(claim("k"), isRepeat: true)
                    #expect(
                        await eventually {
                            (try? await server.command("ZRANGE", stored, "0", "-1"))
                                == .array([.string("young"), .string("k")])
                        })
                }
            }
        }

        @Test func storedKeysHaveABoundAndAnEnd() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server) { admission in
                    for number in 0..<1100 { admission.recordStored(claim("k\(number)"), isRepeat: true) }
                    let stored = RedisKeys.stored(claim("k"))
                    #expect(await eventually { (try? await server.command("ZSCORE", stored, "k1099")) != .null })
                    #expect(try await server.command("ZCARD", stored) == .integer(1000))
                    guard case .integer(let seconds) = try await server.command("TTL", stored) else {
                        throw CancellationError()
                    }
                    #expect((3500...3600).contains(seconds))
                }
            }
        }

        @Test func whatIsChargedAfterwardsReachesRedis() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, RateLimits(sessionEvents: 2)) { admission in
                    #expect(await admission.admit(claim("a")).verdict == .admitted)
                    admission.forceCharge(claim("a"))
                    admission.refund(claim("a"))
                    let window = RedisKeys.window(of: claim("a"))
                    #expect(
                        await eventually {
                            (try? await server.command("ZRANGE", window, "0", "-1")) == .array([.string("\0a")])
                        })
                    let life = try await server.command("PTTL", window)
                    #expect(life != .integer(-1))
                    #expect(await admission.admit(claim("b")).quota.remaining == 0)
                    #expect(await admission.admit(claim("c")).verdict == .refused)
                }
            }
        }

        @Test func batchIsDecidedInOrder() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, RateLimits(sessionEvents: 3, preSessionEvents: 0)) { admission in
                    let claims =
                        ["a", "b", "a", "c", "d"].map { claim($0) } + [
                            claim("p", .preSessionEvents), claim("x", of: "bob"),
                        ]
                    let decisions = await admission.admit(claims)
                    #expect(
                        decisions.map(\.verdict) == [
                            .admitted, .admitted, .known, .admitted, .refused, .admitted, .admitted,
                        ])
                    #expect(decisions.map(\.quota.remaining) == [2, 1, 1, 0, 0, 0, 2])
                    #expect(admission.status.decisionsByRedis == 6)
                }
            }
        }

        @Test func largestBatchIsOneRoundTrip() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server) { admission in
                    let decisions = await admission.admit((0..<500).map { claim("k\($0)") })
                    #expect(decisions.map(\.verdict).filter { $0 == .admitted }.count == 60)
                    #expect(decisions.prefix(60).allSatisfy { $0.verdict == .admitted })
                }
                // The call is cancelled before the first reply of Redis. Even so, all of its commands must reach Redis.
                let limits = RateLimits(sessionEvents: 500)
                try await FaultyProxy.with(server) { proxy in
                    try await withAdmission(server, proxy.endpoint, limits, timeoutMilliseconds: 20_000) { admission in
                        proxy.fault = .stall
                        let waiting = Task { await admission.admit((0..<500).map { claim("k\($0)", of: "bob") }) }
                        let window = RedisKeys.window(of: claim("", of: "bob"))
                        #expect(await eventually { (try? await server.command("ZCARD", window)) == .integer(500) })
                        waiting.cancel()
                        #expect(await waiting.value.count == 500)
                    }
                }
            }
        }

        @Test func limitThatIsOffIsNotKeptInRedis() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, RateLimits(sessionEvents: 0)) { admission in
                    #expect(await admission.admit(claim("a")).verdict == .admitted)
                    admission.recordStored(claim("a"), isRepeat: true)
                    admission.refund(claim("a"))
                    #expect(await admission.admit(claim("p", .preSessionEvents)).verdict == .admitted)
                    let keys = try await server.command("KEYS", "dwell:{[^%]*")
                    #expect(keys == .array([.string("dwell:{ann}:presession")]))
                }
            }
        }

        /// When Redis replies NOSCRIPT, the same call makes the decision with EVAL.
        @Test func flushedScriptIsBroughtAlong() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, RateLimits(sessionEvents: 10)) { admission in
                    for number in 0..<5 {
                        try await server.command("SCRIPT", "FLUSH")
                        let decisions = await admission.admit([claim("a\(number)"), claim("b\(number)")])
                        #expect(decisions.map(\.quota.remaining) == [9 - 2 * number, 8 - 2 * number])
                    }
                    #expect(admission.status.decisionsByRedis == 10)
                    #expect(admission.status.decisionsInProcess == 0)
                }
            }
        }

        @Test func userPasswordAndDatabaseAreUsed() async throws {
            try await RedisServer.with { server in
                try await server.command("ACL", "SETUSER", "dwell", "on", ">s3cret", "~dwell:*", "+@all")
                let endpoint = try RedisEndpoint(parsing: "unix://dwell:s3cret@\(server.socketPath)?db=3")
                try await withAdmission(server, endpoint) { admission in
                    #expect(await admission.admit(claim("a")).verdict == .admitted)
                    #expect(admission.status.decisionsByRedis == 1)
                    guard case .string(let clients) = try await server.command("CLIENT", "LIST"),
                        case .string(let keyspace) = try await server.command("INFO", "keyspace")
                    else {
                        Issue.record("CLIENT LIST and INFO answer a text")
                        return
                    }
                    let ours = clients.split(separator: "\n").filter { $0.contains("user=dwell") }
                    #expect(ours.count == 2)
                    #expect(ours.allSatisfy { $0.contains(" db=3 ") })
                    #expect(keyspace.contains("db3:"))
                }
            }
        }

        @Test func manyCallersAtOnceEachGetTheirOwnAnswer() async throws {
            try await RedisServer.with { server in
                try await withAdmission(server, nil, RateLimits(sessionEvents: 20)) { admission in
                    await withTaskGroup { group in
                        for task in 0..<64 {
                            let loop = server.loops.next()
                            group.addTask(executorPreference: loop) {
                                for number in 0..<25 {
                                    let decision = await admission.admit(claim("k\(number)", of: "driver \(task)"))
                                    #expect(decision.verdict == (number < 20 ? .admitted : .refused))
                                    #expect(decision.quota.remaining == max(19 - number, 0))
                                }
                            }
                        }
                    }
                    #expect(admission.status.decisionsByRedis == 64 * 25)
                }
            }
        }
    }
}
