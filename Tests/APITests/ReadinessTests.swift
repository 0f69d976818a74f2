// Tests of the readiness check, and of the token for the metrics. The server is ready if it is not draining and the
// database accepts a test write. Many requests share one test write.

import HTTP1
import HTTPServer
import RateLimiting
import Secrets
import Synchronization
import TestSupport
import Testing

@testable import API

@Suite struct ReadinessTests {
    /// A scripted database and a manual clock.
    final class Scripted: Sendable {
        let takes = Mutex(true)
        let asked = Atomic<Int>(0)
        let now = Atomic<Int64>(0)

        func readiness(redis: Readiness.Redis = .notConfigured) -> Readiness {
            Readiness(
                takesWrite: { [self] in
                    asked.add(1, ordering: .relaxed)
                    return takes.withLock { $0 }
                },
                redis: { redis }, clock: { [self] in now.load(ordering: .relaxed) })
        }
    }

    @Test func readyWhileTheDatabaseTakesWrites() async {
        let scripted = Scripted()
        let readiness = scripted.readiness()
        #expect(await readiness.report().isReady)

        scripted.takes.withLock { $0 = false }
        #expect(await readiness.report().isReady, "the answer of this second")
        scripted.now.store(1000, ordering: .relaxed)
        #expect(await readiness.report().database == .refusesWrites)

        scripted.takes.withLock { $0 = true }
        scripted.now.store(2000, ordering: .relaxed)
        #expect(await readiness.report().isReady, "it recovers by itself")
    }

    @Test func aFloodOfQuestionsIsOneWrite() async {
        let scripted = Scripted()
        let readiness = scripted.readiness()
        await withTaskGroup { group in
            for _ in 0..<1000 { group.addTask { _ = await readiness.report() } }
        }
        #expect(scripted.asked.load(ordering: .relaxed) == 1)
    }

    @Test func aWriteThatHangsIsAnAnswerToo() async {
        let hung = AsyncStream<Void>.makeStream()
        let readiness = Readiness(
            takesWrite: {
                for await _ in hung.stream {}
                return true
            }, redis: { .notConfigured }, clock: { 0 })
        #expect(await readiness.report().database == .silent)
        hung.continuation.finish()
    }

    @Test func drainingIsNotReadyAndALostRedisIs() async {
        let readiness = Scripted().readiness(redis: .lost)
        #expect(await readiness.report().isReady)
        readiness.beginDrain()
        #expect(await !readiness.report().isReady)
    }

    @Test func theAnswerNamesEveryCheck() async {
        let routes = OperatorRoutes(
            readiness: Scripted().readiness(redis: .lost), metricsToken: nil,
            guesses: Guessed().guesses(LocalRateLimiter(limits: .off)), metricsMediaType: "text/plain"
        ) { "" }
        let response = await routes.ready.response(to: request())
        #expect(response.status == .ok)
        #expect(
            response.text == #"{"status":"ready","checks":{"database":"ok","drain":"ok","redis":"lost"}}"#)

        let draining = Scripted().readiness()
        draining.beginDrain()
        let refused = await OperatorRoutes(
            readiness: draining, metricsToken: nil, guesses: Guessed().guesses(LocalRateLimiter(limits: .off)),
            metricsMediaType: "text/plain"
        ) { "" }.ready.response(to: request())
        #expect(refused.status == .serviceUnavailable)
        #expect(refused.fields.first("Retry-After") == "2")
        #expect(refused.fields.first("Content-Type") == "application/problem+json")
        #expect(refused.text.contains(#""code":"service_unavailable""#))
        #expect(refused.text.hasSuffix(#","checks":{"database":"ok","drain":"draining","redis":"not_configured"}}"#))
    }

    @Test(arguments: [nil, "Bearer wrong", "Bearer 0123456789abcde", "Basic 0123456789abcdef"])
    func aWrongTokenReadsNoFigures(_ authorization: String?) async {
        let routes = OperatorRoutes(
            readiness: Scripted().readiness(),
            metricsToken: Secret("0123456789abcdef"),
            guesses: Guessed().guesses(LocalRateLimiter(limits: .off)), metricsMediaType: "text/plain"
        ) { "a 1\n" }
        let response = await routes.metrics.response(to: request(authorization))
        #expect(response.status == .unauthorized)
        #expect(response.fields.first("WWW-Authenticate") != nil)
    }

    @Test func theRightTokenReadsThem() async {
        let routes = OperatorRoutes(
            readiness: Scripted().readiness(),
            metricsToken: Secret("0123456789abcdef"),
            guesses: Guessed().guesses(LocalRateLimiter(limits: .off)),
            metricsMediaType: "text/plain; version=0.0.4; charset=utf-8"
        ) { "a 1\n" }
        let response = await routes.metrics.response(to: request("Bearer 0123456789abcdef"))
        #expect(response.status == .ok)
        #expect(response.fields.first("Content-Type") == "text/plain; version=0.0.4; charset=utf-8")
        #expect(response.text == "a 1\n")
    }

    private func request(_ authorization: String? = nil) -> Request {
        Request(
            method: .get, path: "/", fields: Fields(authorization.map { [("Authorization", $0)] } ?? []), id: "r1",
            receivedAtMilliseconds: 0)
    }
}
