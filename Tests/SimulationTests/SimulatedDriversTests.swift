// Tests of simulated drivers with a server in memory. A correct server passes with every kind of network. A single
// wrong word in a response is found, and the printed seed reproduces the drive.

import JourneyClient
import JourneyModel
import Simulation
import Synchronization
import Testing

struct SimulatedDriversTests {
    // MARK: A correct server

    @Test("an honest server agrees about everything", arguments: [UInt64(1), 2, 3, 99])
    func honestServerPasses(seed: UInt64) async throws {
        let summary = try await simulate(ScriptedServer(), seed: seed, drivers: 3)
        let days = (0..<3).map { DriverDay(seed: seed + $0, scenarios: Scenario.drives, settings: Settings()) }
        #expect(summary.events == days.reduce(0) { $0 + $1.eventCount })
        #expect(summary.events + summary.duplicates == days.reduce(0) { $0 + $1.deliveredCount })
        #expect(summary.drives == Dictionary(uniqueKeysWithValues: Scenario.drives.map { ($0, 3) }))
        #expect(summary.latencies.count == summary.requests)
    }

    @Test("the bodies of a run are a function of its seed, of the moment and of nothing else")
    func sendsTheSame() async throws {
        let now = Moment(millisecondsSinceEpoch: 1_794_859_200_000)
        let servers = (0..<2).map { _ in ScriptedServer(clock: { now }) }
        for server in servers {
            // Neither scenario sends concurrent copies, which could arrive in any order.
            _ = try await simulate(server, seed: 5, scenarios: [.happyPath, .shuffledDelivery], clock: { now })
        }
        #expect(servers[0].bodies == servers[1].bodies)
        #expect(!servers[0].bodies.isEmpty)
    }

    @Test("lost answers are asked for again, and may then be repeats")
    func survivesLostAnswers() async throws {
        let summary = try await simulate(ScriptedServer(losesAnswer: { $0 % 5 == 0 }))
        #expect(summary.repeatedRequests > 0)
    }

    @Test("429 waits for as long as Retry-After says, and sends again")
    func respectsRetryAfter() async throws {
        let slept = Mutex<[Duration]>([])
        let limited = HTTPExchange.Response(status: 429, fields: [HTTPExchange.Field("Retry-After", "17")])
        let server = ScriptedServer(refusal: { $0 == 4 ? .response(limited) : nil })
        let summary = try await simulate(
            server, scenarios: [.happyPath], sleep: { duration in slept.withLock { $0.append(duration) } })
        #expect(slept.withLock(\.self) == [.seconds(17)])
        #expect(summary.limited == 1)
    }

    @Test("a server whose clock is three minutes off is asked by its own clock")
    func followsTheServersClock() async throws {
        let ahead: @Sendable () -> Moment = { ServerClock.system().advanced(byMilliseconds: 180_000) }
        let summary = try await simulate(ScriptedServer(clock: ahead), seed: 11, drivers: 5)
        #expect(summary.requests > 0)
    }

    // MARK: A server with wrong responses

    private static let lies: [@Sendable (inout EventResponse) -> Void] = [
        { $0.verdict = $0.verdict.transition == .none ? .applied : .none },
        { $0.verdict.implied.formSymmetricDifference(.reset) },
        { $0.state = $0.state == .inTransit ? .atMerchant : .inTransit },
        { $0.status = $0.status == .ok ? .alreadyProcessed : .ok },
        { $0.eventID += "x" },
        { $0.endedBy = $0.endedBy == nil ? .grace : nil },
    ]

    @Test("one lie about one event is caught, and its seed alone catches it again", arguments: lies.indices)
    func catchesOneLie(index: Int) async throws {
        // The second event of the second driver's drive with shuffled delivery.
        let name = "run-1-1-shuffled-delivery-01"
        let lie = Self.lies[index]
        let liar = ScriptedServer(lie: { _, answer in if answer.eventID == name { lie(&answer) } })
        let divergence = try await divergence(of: liar, seed: 40, drivers: 2)
        #expect(divergence.seed == 41)
        #expect(divergence.eventID == name)
        #expect(divergence.scenario == .shuffledDelivery)
        #expect(divergence.differences.count == 1, "\(divergence.differences)")
        #expect(divergence.replay.hasPrefix("--seed 41 --drivers 1 --scenario happy-path "))

        let alone = "run-1-0-shuffled-delivery-01"
        let again = ScriptedServer(lie: { _, answer in if answer.eventID == alone { lie(&answer) } })
        let replayed = try await self.divergence(of: again, seed: divergence.seed, drivers: 1)
        #expect(replayed.event == divergence.event)
        #expect(replayed.delivery == divergence.delivery)
        // Event ids contain the driver's number: 1 in the first run, 0 in the second.
        let differences = replayed.differences.map { $0.replacing(alone, with: name) }
        #expect(differences == divergence.differences)
    }

    @Test("a server that forgets what it stored is caught by the final delivery")
    func catchesForgetting() async throws {
        let count = DriverDay(seed: 1, scenarios: [.happyPath], settings: Settings()).eventCount
        let liar = ScriptedServer(lie: { number, answer in if number > count { answer.status = .ok } })
        let divergence = try await divergence(of: liar, seed: 1, scenarios: [.happyPath])
        #expect(divergence.delivery == "final delivery")
        #expect(divergence.differences == ["status is ok instead of already_processed"])
    }

    @Test("an event that is refused is a divergence that tells status and code")
    func reportsRefusals() async throws {
        let problem = HTTPExchange.Response(
            status: 422, body: Problem(.idempotencyKeyReused, detail: "why").encoded())
        let server = ScriptedServer(refusal: { $0 == 3 ? .response(problem) : nil })
        let divergence = try await divergence(of: server, seed: 1, scenarios: [.happyPath])
        #expect(divergence.differences == ["got 422 idempotency_key_reused instead of 200"])
    }

    @Test("a server that takes another event under a used key is caught")
    func catchesReuse() async throws {
        let answer = EventResponse(status: .alreadyProcessed, eventID: "x", state: .idle, verdict: .none)
        // A correct server answers 422 to the first body that differs.
        let server = ScriptedServer(reusesKeys: answer)
        let divergence = try await divergence(of: server, seed: 1, scenarios: [.rebuiltBody])
        #expect(divergence.delivery == "with another time under the same key")
        #expect(divergence.differences == ["got 200 instead of 422 idempotency_key_reused"])
    }

    @Test("a server that shows a session as ended for another reason is caught")
    func catchesEndings() async throws {
        let server = ScriptedServer(showsEnding: .grace)
        let divergence = try await divergence(of: server, seed: 1, scenarios: [.targetSetAgain])
        #expect(divergence.delivery == "its session in GET /native/sessions")
        #expect(divergence.differences == ["ended_by is grace instead of superseded"])
    }

    @Test("a server that never answers is a failure, not a divergence, after a bounded number of attempts")
    func givesUp() async {
        let server = ScriptedServer(refusal: { _ in .noResponse })
        await #expect(throws: SimulationFailure("the server does not respond, 8 times in a row")) {
            try await simulate(server, scenarios: [.happyPath])
        }
    }

    private func divergence(
        of server: ScriptedServer, seed: UInt64, drivers: Int = 1, scenarios: [Scenario] = Scenario.drives
    ) async throws -> Divergence {
        let error = await #expect(throws: Divergence.self) {
            try await simulate(server, seed: seed, drivers: drivers, scenarios: scenarios)
        }
        return try #require(error)
    }
}
