// Compares the script in a real Redis with the limiter in the process, call by call. Both must give the same verdict,
// remaining quota and reset time. The process uses the time that Redis reports.

import JourneyModel
import Sockets
import Synchronization
import TestSupport
import Testing

@testable import RateLimiting

extension WithRedis {
    struct AdmissionScriptTests {
        private let limits = RateLimits(sessionEvents: 4, preSessionEvents: 2, windowSeconds: 1)

        /// The script uses Redis's own clock, so real time passes.
        @Test func randomTraceOnRedisClockAgreesWithTheProcess() async throws {
            try await compare(calls: 400, source: AdmissionScript.source) { random in
                if Int.random(in: 0..<3, using: &random) == 0 {
                    try await Task.sleep(for: .milliseconds(Int.random(in: 1...40, using: &random)))
                }
                return []
            }
        }

        /// A manual clock, which moves in steps of 100 ms, replaces the time of Redis. In thousands of calls, charges
        /// therefore expire in the same millisecond in which others are added.
        @Test func randomTraceOnASetClockAgreesWithTheProcess() async throws {
            let source = AdmissionScript.source.split(separator: "redis.call('TIME')").joined(
                separator: "{tonumber(ARGV[5]), tonumber(ARGV[6])}")
            var milliseconds: Int64 = 1_800_000_000_000
            try await compare(calls: 4000, source: source) { random in
                milliseconds += Int64.random(in: 0...2, using: &random) * 100
                return [String(milliseconds / 1000), String(milliseconds % 1000 * 1000)]
            }
        }

        private func compare(
            calls: Int, source: String, time: (inout SeededRandom) async throws -> [String]
        ) async throws {
            let seed = UInt64.random(in: .min ... .max)
            var random = SeededRandom(seed: seed)
            try await RedisServer.with(loops: 1) { server in
                let clock = Mutex<Int64>(0)
                let window = LocalRateLimiter(limits: limits, clock: { clock.withLock { $0 } })
                let client = try await ScriptClient(server, source)
                var verdicts: Set<AdmissionDecision.Verdict> = []
                // The process's clock starts at the time of the first decision in Redis.
                let first = try #require(await client.ask(claim("first", of: "eve"), limits, extra: time(&random)))
                clock.withLock { $0 = first.decidedAt }
                for call in 0..<calls {
                    let claim = randomClaim(&random)
                    let chance = Int.random(in: 0..<20, using: &random)
                    if chance < 3 {
                        try await client.tell(claim, isStored: chance == 0)
                        if chance == 0 { window.recordStored(claim) } else { window.refund(claim) }
                        continue
                    }
                    let answer = try #require(await client.ask(claim, limits, extra: time(&random)))
                    clock.withLock { $0 = answer.decidedAt }
                    let expected = window.decide(claim)
                    try #require(answer.decision == expected, "seed \(seed), call \(call)")
                    verdicts.insert(answer.decision.verdict)
                }
                #expect(verdicts.count == 3, "the trace met every verdict; seed \(seed)")
                client.close()
            }
        }

        private func randomClaim(_ random: inout SeededRandom) -> AdmissionClaim {
            AdmissionClaim(
                driver: DriverID(Bool.random(using: &random) ? "ann" : "b}ob"),
                limitClass: Int.random(in: 0..<3, using: &random) == 0 ? .preSessionEvents : .sessionEvents,
                // The keys come from a small range, so some keys repeat while their charge is in the window.
                idempotencyKey: "key \(Int.random(in: 0...(Bool.random(using: &random) ? 4 : 200), using: &random))")
        }

        @Test func windowLeavesRedisWithItsLastCharge() async throws {
            try await RedisServer.with(loops: 1) { server in
                let client = try await ScriptClient(server, AdmissionScript.source)
                let claim = AdmissionClaim(driver: DriverID("ann"), limitClass: .sessionEvents, idempotencyKey: "k")
                _ = try await client.ask(claim, limits, extra: [])
                client.close()
                let key = RedisKeys.window(of: claim)
                guard case .integer(let left) = try await server.command("PTTL", key) else {
                    Issue.record("PTTL answers an integer")
                    return
                }
                #expect(left > 0 && left <= 1000)
            }
        }

        @Test func replyToChargesHasTheQuotaOfTheWindow() async throws {
            try await RedisServer.with(loops: 1) { server in
                let client = try await ScriptClient(server, AdmissionScript.source)
                let claim = AdmissionClaim(driver: DriverID("ann"), limitClass: .sessionEvents, idempotencyKey: "k")
                for remaining in [3, 2, 1, 0] {
                    let again = AdmissionClaim(
                        driver: claim.driver, limitClass: claim.limitClass, idempotencyKey: "k\(remaining)")
                    let quota = try #require(try await client.charge(again, times: 1, limits))
                    #expect(quota.remaining == remaining)
                    #expect((1...1000).contains(quota.resetMilliseconds))
                }
                client.close()
            }
            let reset = RedisReply.integer(limits.windowMilliseconds)
            for reply: RedisReply? in [
                nil, .error("OOM"), .integer(0), .array([.integer(0)]), .array([.integer(5), reset]),
                .array([.integer(-1), reset]), .array([.integer(0), .integer(-1)]),
                .array([.integer(0), .integer(.max)]), .array([.integer(0), .string("1")]),
            ] {
                #expect(AdmissionScript.quotaAfterCharge(reply, .sessionEvents, limits) == nil)
            }
        }

        @Test func chargesBeyondTheLimitExpireAtItsRate() async throws {
            try await RedisServer.with(loops: 1) { server in
                let client = try await ScriptClient(server, AdmissionScript.source)
                let claim = AdmissionClaim(driver: DriverID("ann"), limitClass: .sessionEvents, idempotencyKey: "k")
                // The limit is 4 a second, so 26 of the 30 charges exceed it. Each of these is dated a quarter of a
                // second after the charge before it. The last charge therefore expires more than six seconds from now.
                let quota = try #require(try await client.charge(claim, times: 30, limits))
                #expect(quota.remaining == 0)
                #expect((6500...7500).contains(quota.resetMilliseconds))
                let refused = try #require(await client.ask(claim, limits, extra: []))
                #expect(refused.decision.verdict == .refused)
                #expect((6500...7500).contains(refused.decision.quota.resetMilliseconds))
                // An event may also be charged after it was stored, without a decision. If this charge made Redis
                // forget the window earlier, the driver would be admitted too soon.
                try await client.forceCharge(claim, limits)
                let key = RedisKeys.window(of: claim)
                guard case .integer(let left) = try await server.command("PTTL", key) else {
                    Issue.record("PTTL answers an integer")
                    return
                }
                #expect(left > 6500)
                #expect(try await server.command("ZCARD", key) == .integer(31))
                client.close()
            }
        }

        /// The operator raises a limit, but the window holds more charges than even the new limit permits. The charges
        /// above the old limit are dated ahead, at the intervals of the old limit.
        @Test func chargesUnderALowerLimitAreCountedUnderAHigherOne() async throws {
            try await RedisServer.with(loops: 1) { server in
                let client = try await ScriptClient(server, AdmissionScript.source)
                let claim = AdmissionClaim(driver: DriverID("ann"), limitClass: .sessionEvents, idempotencyKey: "k")
                _ = try await client.charge(claim, times: 2000, RateLimits(sessionEvents: 1, windowSeconds: 60))
                let raised = RateLimits(sessionEvents: 1000, windowSeconds: 60)
                let answer = try #require(await client.ask(claim, raised, extra: []))
                client.close()
                #expect(answer.decision.verdict == .refused)
                // A request is admitted when fewer than 1,000 charges are left in the window. More than a thousand
                // charges must expire first, and the last of them is dated a thousand minutes ahead.
                #expect((59_000_000...61_000_000).contains(answer.decision.quota.resetMilliseconds))
            }
        }

        /// Redis fails over to a machine whose clock is more than a window behind, so the stored charges are in the
        /// future.
        @Test func chargesFromTheFarFutureAreForgotten() async throws {
            try await RedisServer.with(loops: 1) { server in
                let claim = AdmissionClaim(driver: DriverID("ann"), limitClass: .sessionEvents, idempotencyKey: "k")
                for number in 0..<4 {
                    try await server.command("ZADD", RedisKeys.window(of: claim), "9000000000000", "old \(number)")
                }
                let client = try await ScriptClient(server, AdmissionScript.source)
                let answer = try #require(await client.ask(claim, limits, extra: []))
                client.close()
                #expect(answer.decision.verdict == .admitted)
                #expect(answer.decision.quota.remaining == 3)
            }
        }
    }
}

private final class ScriptClient {
    private let stream: RedisStream
    private let source: String

    init(_ server: RedisServer, _ source: String) async throws {
        self.source = source
        stream = try await RedisStream.connect(
            to: .unix(path: server.socketPath), server.endpoint, on: server.loops.loops[0], until: .inSeconds(5))
    }

    func ask(_ claim: AdmissionClaim, _ limits: RateLimits, extra: [String]) async throws -> AdmissionScript.Answer? {
        var commands = RedisCommands()
        commands.begin(2 + AdmissionScript.argumentCount + extra.count)
        for word in ["EVAL", source] { commands.add(word) }
        AdmissionScript.addArguments(for: claim, number: 7, limits: limits, to: &commands)
        for word in extra { commands.add(word) }
        let replies = try await RedisConnection.converse(stream, commands, until: .inSeconds(5))
        return replies.first.flatMap { AdmissionScript.answer($0, to: 7, claim.limitClass, limits) }
    }

    func tell(_ claim: AdmissionClaim, isStored: Bool) async throws {
        let commands =
            isStored
            ? AdmissionScript.recordStored(claim, forSeconds: 3600)
            : RedisCommands("ZREM", RedisKeys.window(of: claim), claim.idempotencyKey)
        _ = try await RedisConnection.converse(stream, commands, until: .inSeconds(5))
    }

    func charge(_ claim: AdmissionClaim, times: Int, _ limits: RateLimits) async throws -> Quota? {
        let commands = AdmissionScript.charge(claim, times: times, limits)
        let replies = try await RedisConnection.converse(stream, commands, until: .inSeconds(5))
        return AdmissionScript.quotaAfterCharge(replies.first, claim.limitClass, limits)
    }

    func forceCharge(_ claim: AdmissionClaim, _ limits: RateLimits) async throws {
        let commands = AdmissionScript.forceCharge(claim, limits)
        _ = try await RedisConnection.converse(stream, commands, until: .inSeconds(5))
    }

    func close() { stream.close() }
}

/// The tests that start a Redis server run one after another, because many of them measure time.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct WithRedis {}
