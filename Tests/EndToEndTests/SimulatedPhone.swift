// An app with the parts of a released app: JourneyClient's engine and queue, files for its data, and HTTP. When the app
// is killed, only the files remain.

import Foundation
import JourneyClient
import JourneyModel
import Simulation
import TestSupport

struct SimulatedPhone {
    /// The effect of the network on one request.
    enum Network {
        case up
        /// The request is not sent.
        case down
        /// The request arrives, but its response is lost.
        case losesAnswer
    }

    private(set) var engine: SessionEngine
    private var queue: EventQueue<FileEventJournal>
    private(set) var transitions: [EngineOutput.Transition] = []
    private var random: SeededRandom

    private let driver: DriverID
    private let token: String
    private let transport: any Transport
    private let journalPath: String
    private let snapshotPath: String

    /// - Parameter folder: the directory for the phone's files.
    init(
        driver: DriverID, token: String, transport: any Transport, folder: String, settings: Settings, seed: UInt64
    ) throws {
        self.driver = driver
        self.token = token
        self.transport = transport
        journalPath = "\(folder)/journal"
        snapshotPath = "\(folder)/snapshot"
        random = SeededRandom(seed: seed)
        engine = SessionEngine(settings: settings)
        queue = try EventQueue(driver: driver, journal: FileEventJournal(path: journalPath))
    }

    var state: JourneyState { engine.state }
    var unsentCount: Int { queue.count }

    /// - Parameter now: the time on the phone's clock.
    mutating func take(_ input: EngineInput, at now: Moment) throws {
        try follow(engine.handle(input, at: now), at: now)
    }

    /// Kills the app and starts it again. Only the app's files survive.
    mutating func restart(at now: Moment, fix: LocationFix?) throws {
        let stored = [UInt8](try Data(contentsOf: URL(fileURLWithPath: snapshotPath)))
        queue = try EventQueue(driver: driver, journal: FileEventJournal(path: journalPath))
        let restored = SessionEngine.restored(from: try Snapshot(decoding: stored), at: now, fix: fix)
        engine = restored.engine
        try follow(restored.outputs, at: now)
    }

    /// Stores the events first and then the snapshot, as SessionEngine requires.
    private mutating func follow(_ outputs: [EngineOutput], at now: Moment) throws {
        for output in outputs {
            switch output {
            case .send(let draft): _ = try queue.enqueue(draft, eventID: randomID(), at: now)
            case .transition(let transition): transitions.append(transition)
            case .refused, .setTimer, .cancelTimer, .monitor, .requestFix: break
            }
        }
        try Data(engine.snapshot.encoded()).write(to: URL(fileURLWithPath: snapshotPath), options: .atomic)
    }

    private mutating func randomID() -> String {
        "\(String(random.next(), radix: 16))-\(String(random.next(), radix: 16))"
    }

    /// Sends the due events until none is left, or until the network or the server prevents it. Returns the outputs
    /// that no test expects: dropped events, rejected tokens, and failures of the journal.
    mutating func flush(at now: Moment, over network: Network) async -> [QueueOutput] {
        var dropped: [QueueOutput] = []
        while let attempt = queue.nextAttempt(at: now, accessToken: token) {
            var outcome = HTTPExchange.Outcome.noResponse
            if network != .down { outcome = await transport.send(attempt.request) }
            if network == .losesAnswer { outcome = .noResponse }
            dropped += queue.handle(outcome, of: attempt, at: now, using: &random).filter(\.isLoss)
        }
        return dropped
    }

    func askServer() async -> JSONValue? {
        let fields = [HTTPExchange.Field("Authorization", "Bearer \(token)")]
        let request = HTTPExchange.Request(method: "GET", path: "/native/session", fields: fields, body: [])
        guard case .response(let response) = await transport.send(request), response.status == 200 else { return nil }
        return try? JSONValue.parse(response.body)
    }
}

extension QueueOutput {
    fileprivate var isLoss: Bool {
        switch self {
        case .dropped, .signInAgain, .refreshToken, .journalFailed: true
        case .delivered, .wait: false
        }
    }
}
