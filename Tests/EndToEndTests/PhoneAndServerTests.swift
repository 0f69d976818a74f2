// Tests the real phone library with a real server over HTTP. During the drive, location fixes are noisy or missing, the
// network fails, responses are lost, the clock is wrong, and the app is killed.
//
// Whenever the phone has sent all its events, phone and server have the same state, session and deadlines. At the end
// they agree on every transition.

import Foundation
import JourneyClient
import JourneyModel
import SQLiteStore
import Simulation
import TestSupport
import Testing

@Suite struct PhoneAndServerTests {
    /// The errors of the phone's clock, in milliseconds: none, and two hours behind.
    private static let clockErrors: [Int64] = [0, -7_200_000]

    @Test("the whole day: both ends agree after every step", arguments: [1, 2, 3] as [UInt64], clockErrors)
    func wholeDay(seed: UInt64, clockErrorMilliseconds: Int64) async throws {
        try await Bench.with(seed, clockErrorMilliseconds) { bench in
            try await bench.drive(through: 0..<Drive.seconds)
            try await bench.handle(.visitVerified(sessionID: Bench.session))
            #expect(bench.agreements > 500, "seed \(seed): compared only \(bench.agreements) times")
            #expect(bench.phone.transitions.map(\.to) == Bench.wholeWay, "seed \(seed)")
            try await bench.expectSameTransitions()
        }
    }

    @Test("killed on the way and started two minutes later, the app goes on where the server is", arguments: 1...3)
    func restartsOnTheWay(seed: Int) async throws {
        try await Bench.with(UInt64(seed)) { bench in
            try await bench.drive(through: 0..<700)
            // The app does not run during these two minutes, so the server gets no event.
            bench.pass(seconds: 120)
            try await bench.restart(at: 820)
            try await bench.drive(through: 820..<Drive.seconds)
            try await bench.handle(.visitVerified(sessionID: Bench.session))
            #expect(bench.phone.transitions.map(\.to) == Bench.wholeWay, "seed \(seed)")
            try await bench.expectSameTransitions()
        }
    }

    @Test("killed on the way for half an hour: the server ends the session, the app agrees", arguments: 1...3)
    func deadlinePassesWhileDead(seed: Int) async throws {
        try await Bench.with(UInt64(seed)) { bench in
            try await bench.drive(through: 0..<700)
            let deadline = try #require(bench.phone.engine.journey.graceDeadline)
            bench.pass(seconds: 1800)
            try await bench.server.storeDueExpiries()
            #expect(try await bench.serverState() == "SESSION_ENDED")
            try await bench.restart(at: 2500)
            try await bench.flush(until: 600)
            #expect(bench.phone.state == .sessionEnded)
            #expect(bench.phone.transitions.last?.at == deadline)
            try await bench.expectSameTransitions()
        }
    }
}

/// One phone and one server with one clock.
final class Bench {
    static let session = Drive.identifier("session-1")
    static let wholeWay: [JourneyState] = [
        .nearCharger, .anchored, .sessionActive, .inTransit, .atMerchant, .sessionEnded,
    ]

    let server: ServedDwell
    private(set) var phone: SimulatedPhone
    /// The number of comparisons in which phone and server agreed.
    private(set) var agreements = 0
    private var route: Drive
    private let clock: ManualClock
    private let seed: UInt64
    private let clockErrorMilliseconds: Int64
    private let driver = DriverID("jonas")

    static func with(
        _ seed: UInt64, _ clockErrorMilliseconds: Int64 = 0, _ body: (Bench) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("phone-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let clock = ManualClock()
        let server = try await ServedDwell.start(clock: clock)
        let outcome: Result<Void, any Error>
        do {
            let bench = try await Bench(server, clock, folder, seed, clockErrorMilliseconds)
            outcome = .success(try await body(bench))
        } catch {
            outcome = .failure(error)
        }
        await server.stop()
        try outcome.get()
    }

    private init(
        _ server: ServedDwell, _ clock: ManualClock, _ folder: String, _ seed: UInt64, _ clockErrorMilliseconds: Int64
    ) async throws {
        self.server = server
        self.clock = clock
        self.seed = seed
        self.clockErrorMilliseconds = clockErrorMilliseconds
        route = Drive(seed: seed)
        let transport = try #require(URLSessionTransport(url: server.url, timeoutSeconds: 10, connectionsMax: 4))
        phone = try SimulatedPhone(
            driver: driver, token: try await server.token(of: driver), transport: transport, folder: folder,
            settings: server.settings, seed: seed)
    }

    private var phoneNow: Moment { clock.now.advanced(byMilliseconds: clockErrorMilliseconds) }

    func pass(seconds: Int) {
        clock.advance(bySeconds: seconds)
    }

    /// Drives in steps of one second. After each step in which the phone has sent all its events, the phone's journey
    /// is compared with the server's.
    func drive(through seconds: Range<Int>) async throws {
        for second in seconds {
            if second == 0 { try phone.take(.targeted(Drive.charger), at: phoneNow) }
            if second == Drive.activatedAt {
                try phone.take(.activated(sessionID: Self.session, merchant: Drive.merchant), at: phoneNow)
            }
            if let fix = route.fix(at: second, phoneClock: phoneNow) { try phone.take(.fixes([fix]), at: phoneNow) }
            try await send(over: route.network(at: second), at: second)
            pass(seconds: 1)
        }
    }

    func handle(_ input: EngineInput) async throws {
        try phone.take(input, at: phoneNow)
        try await send(over: .up, at: Drive.seconds)
    }

    func restart(at second: Int) async throws {
        try phone.restart(at: phoneNow, fix: route.fix(at: second, phoneClock: phoneNow))
    }

    /// Sends with a working network until the queue is empty.
    func flush(until seconds: Int) async throws {
        for second in 0..<seconds {
            try await send(over: .up, at: second)
            if phone.unsentCount == 0 { return }
            pass(seconds: 1)
        }
        Issue.record("seed \(seed): \(phone.unsentCount) events are still unsent after \(seconds) s")
    }

    private func send(over network: SimulatedPhone.Network, at second: Int) async throws {
        let dropped = await phone.flush(at: phoneNow, over: network)
        #expect(dropped.isEmpty, "seed \(seed), second \(second): \(dropped)")
        if network == .up && phone.unsentCount == 0 { try await compare(at: second) }
    }

    // MARK: Agreement

    private func compare(at second: Int) async throws {
        let found = try #require(await phone.askServer(), "seed \(seed), second \(second): no answer")
        let journey = phone.engine.journey
        func agrees(_ what: String, _ server: JSONValue?, _ phone: String?) {
            #expect(server == phone.map(JSONValue.string), "seed \(seed), second \(second): \(what)")
        }
        agrees("state", found["state"], journey.state.rawValue)
        agrees("session", found["session_id"], journey.sessionID)
        agrees("grace deadline", found["deadlines"]?["grace"]?["at"], onServersClock(journey.graceDeadline))
        agrees("hard deadline", found["deadlines"]?["hard"]?["at"], onServersClock(journey.hardDeadline))
        agreements += 1
    }

    private func onServersClock(_ moment: Moment?) -> String? {
        moment.map { RFC3339.text(of: $0.advanced(byMilliseconds: -clockErrorMilliseconds)) }
    }

    func serverState() async throws -> String? {
        guard case .string(let state)? = await phone.askServer()?["state"] else { return nil }
        return state
    }

    /// Expects that the server applied exactly the phone's transitions, in the same order and at the same times. An
    /// expiry that both noticed is listed once.
    func expectSameTransitions() async throws {
        let applied = try await server.store.timeline(of: driver).filter { $0.verdict.transition == .applied }
        #expect(applied.map(\.name) == phone.transitions.map(\.event), "seed \(seed)")
        #expect(applied.map(\.state) == phone.transitions.map(\.to), "seed \(seed)")
        #expect(
            applied.map(\.correctedAt)
                == phone.transitions.map { $0.at.advanced(byMilliseconds: -clockErrorMilliseconds) }, "seed \(seed)")
    }
}
