// Tests in which a proxy in front of a real Redis stalls, truncates, replaces and delays replies. Every call returns a
// correct decision within the timeout, and a reply never reaches another call.

import JourneyModel
import Sockets
import Synchronization
import TestSupport
import Testing

@testable import RateLimiting

extension WithRedis {
    struct RedisFaultTests {
        /// How long a request may exceed the timeout, because a machine may be slow. A request that waits forever still
        /// fails the test.
        private static let slackMilliseconds = 2000

        private func withProxy(
            _ limits: RateLimits = RateLimits(), timeoutMilliseconds: Int = 50,
            _ body: (FaultyProxy, RedisRateLimiter) async throws -> Void
        ) async throws {
            try await RedisServer.with { server in
                try await FaultyProxy.with(server) { proxy in
                    try await withAdmission(
                        server, proxy.endpoint, limits, timeoutMilliseconds: timeoutMilliseconds
                    ) {
                        try await body(proxy, $0)
                    }
                }
            }
        }

        private func expectRightAnswer(during fault: FaultyProxy.Fault) async throws {
            try await withProxy(RateLimits(sessionEvents: 3)) { proxy, admission in
                #expect(await admission.admit(claim("a")).quota.remaining == 2)
                proxy.fault = fault
                let begin = ContinuousClock.now
                let second = await admission.admit(claim("b"))
                let waited = ContinuousClock.now - begin
                #expect(second.verdict == .admitted)
                #expect(second.quota.remaining == 1)
                #expect(waited < .milliseconds(50 + Self.slackMilliseconds))

                proxy.fault = .none
                #expect(await servesAgain(admission))
                let third = await admission.admit(claim("c"))
                #expect(third.verdict == .admitted)
                #expect(third.quota.remaining == 0)
                #expect(await admission.admit(claim("b")).verdict == .known)
                #expect(await admission.admit(claim("d")).verdict == .refused)
            }
        }

        @Test func stalledReplies() async throws { try await expectRightAnswer(during: .stall) }

        @Test(arguments: [0, 1, 5, 12]) func replyCutShort(afterBytes count: Int) async throws {
            try await expectRightAnswer(during: .cut(afterBytes: count))
        }

        @Test(arguments: [
            "HTTP/1.1 400 Bad Request\r\n\r\n", "+OK\r\n", ":1\r\n", "$-1\r\n", "*0\r\n", "\0", "*1000000000\r\n",
            "-ERR unknown command\r\n", "-LOADING Redis is loading the dataset in memory\r\n",
            "-BUSY Redis is busy running a script\r\n", "-MISCONF Redis is configured to save RDB snapshots\r\n",
            "-MOVED 1 127.0.0.1:1\r\n", "-ASK 1 127.0.0.1:1\r\n", "-NOSCRIPT No matching script.\r\n",
            "*5\r\n:7\r\n:59\r\n:60000\r\n:1\r\n:1\r\n",
            "*5\r\n:0\r\n:-1\r\n:1\r\n:1\r\n:1\r\n",
            // The correct reply, followed by one reply too many.
            "*5\r\n:0\r\n:1\r\n:60000\r\n:1\r\n:1\r\n+OK\r\n",
            // A valid reply that belongs to the call before.
            "*5\r\n:1\r\n:2\r\n:60000\r\n:1\r\n:0\r\n",
        ]) func otherReplies(text: String) async throws { try await expectRightAnswer(during: .answer(text)) }

        /// The replies for some drivers come after the timeout. Meanwhile, another driver's calls use new connections.
        /// No call may get the reply of another call.
        @Test(.timeLimit(.minutes(2))) func lateRepliesReachNobody() async throws {
            let limit = 100_000
            try await withProxy(RateLimits(sessionEvents: limit, windowSeconds: 600)) { proxy, admission in
                var sent = 0
                for round in 0..<4 {
                    #expect(await servesAgain(admission))
                    proxy.fault = .delay(milliseconds: 70)
                    let late = (0..<4).map { number in
                        Task { await admission.admit(claim("late \(round)", of: "late \(number)")) }
                    }
                    for task in late { #expect(await task.value.quota.remaining == limit - 1 - round) }
                    proxy.fault = .none
                    // While the connections are down, the process decides. On a busy machine, even prompt replies may
                    // be late. The calls therefore continue until Redis has made ten decisions.
                    //
                    // If Redis never decides, the test's time limit ends this loop.
                    let before = admission.status.decisionsByRedis
                    var number = 0
                    while number < 20 || admission.status.decisionsByRedis - before < 10 {
                        if number >= 10 { try #require(await servesAgain(admission)) }
                        let decision = await admission.admit(claim("\(round) \(number)", of: "prompt"))
                        #expect(decision.verdict == .admitted)
                        #expect(decision.quota.remaining == limit - 1 - sent)
                        sent += 1
                        number += 1
                        try Task.checkCancellation()
                    }
                }
                #expect(admission.status.timeouts >= 4)
                #expect(admission.status.decisionsByRedis >= 40)
            }
        }

        private func servesAgain(_ admission: RedisRateLimiter) async -> Bool {
            await eventually { admission.status.connections == 2 && admission.status.breaker == .closed }
        }

        /// Random faults occur while many drivers send events. Each verdict and each remaining count must be that of a
        /// limiter without faults, whether Redis or the process decides.
        @Test func figuresStayRightThroughRandomFaults() async throws {
            let seed = UInt64.random(in: .min ... .max)
            let faults: [FaultyProxy.Fault] = [
                .stall, .cut(afterBytes: 3), .answer("+OK\r\n"), .answer("-OOM no\r\n"),
                .delay(milliseconds: 20), .delay(milliseconds: 45),
            ]
            try await withProxy(RateLimits(sessionEvents: 60, windowSeconds: 600), timeoutMilliseconds: 30) {
                proxy, admission in
                let weather = Task {
                    var random = SeededRandom(seed: seed)
                    while !Task.isCancelled {
                        try? await Task.sleep(for: .milliseconds(Int.random(in: 50...150, using: &random)))
                        proxy.fault = faults.randomElement(using: &random) ?? .none
                        try? await Task.sleep(for: .milliseconds(Int.random(in: 5...30, using: &random)))
                        proxy.fault = .none
                    }
                }
                await withTaskGroup { group in
                    for task in 0..<16 {
                        group.addTask { await self.countOneDriver(admission, "driver \(task)", seed) }
                    }
                }
                weather.cancel()
                await weather.value
                let status = admission.status
                #expect(status.decisionsByRedis > 0 && status.decisionsInProcess > 0, "seed \(seed): \(status)")
            }
        }

        private func countOneDriver(_ admission: RedisRateLimiter, _ driver: String, _ seed: UInt64) async {
            for number in 0..<80 {
                let begin = ContinuousClock.now
                let decision = await admission.admit(claim("k\(number)", of: driver))
                #expect(ContinuousClock.now - begin < .milliseconds(30 + Self.slackMilliseconds), "seed \(seed)")
                #expect(decision.verdict == (number < 60 ? .admitted : .refused), "seed \(seed), \(driver) \(number)")
                #expect(decision.quota.remaining == max(59 - number, 0), "seed \(seed), \(driver) \(number)")
                if number % 10 == 9 {
                    let again = await admission.admit(claim("k\(min(number, 59))", of: driver))
                    #expect(again.verdict == .known, "seed \(seed), \(driver) \(number)")
                }
                try? await Task.sleep(for: .milliseconds(10))
            }
        }
    }
}
