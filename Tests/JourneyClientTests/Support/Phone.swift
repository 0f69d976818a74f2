// A minimal app that uses the engine. It records the engine's outputs, and stores a snapshot after each input. Its
// times are seconds after an arbitrary start.

import JourneyClient
import JourneyModel

struct Phone {
    var engine: SessionEngine
    var sent: [EventDraft] = []
    var transitions: [EngineOutput.Transition] = []
    var timers: [EngineTimer: Moment] = [:]
    var geofences: [Geofence] = []
    /// The engine's outputs for the last input.
    var outputs: [EngineOutput] = []
    private var stored: Snapshot

    init(_ settings: Settings = Settings()) {
        engine = SessionEngine(settings: settings)
        stored = engine.snapshot
    }

    var state: JourneyState { engine.state }
    var names: [EventName] { sent.map(\.name) }

    mutating func take(_ input: EngineInput, at seconds: Double) {
        follow(engine.handle(input, at: .at(seconds)))
    }

    mutating func fix(east: Double, accuracy: Double = 5, speed: Double? = 0, at seconds: Double) {
        take(.fixes([Town.fix(east: east, accuracy: accuracy, speed: speed, at: seconds)]), at: seconds)
    }

    /// Kills the app and restarts it from its last snapshot.
    mutating func restart(at seconds: Double, fix: LocationFix? = nil) throws {
        let snapshot = try Snapshot(decoding: stored.encoded())
        timers = [:]
        geofences = []
        let restored = SessionEngine.restored(from: snapshot, at: .at(seconds), fix: fix)
        engine = restored.engine
        follow(restored.outputs)
    }

    private mutating func follow(_ outputs: [EngineOutput]) {
        self.outputs = outputs
        stored = engine.snapshot
        for output in outputs {
            switch output {
            case .send(let draft): sent.append(draft)
            case .transition(let transition): transitions.append(transition)
            case .setTimer(let timer, let moment): timers[timer] = moment
            case .cancelTimer(let timer): timers[timer] = nil
            case .monitor(let geofences): self.geofences = geofences
            case .refused, .requestFix: break
            }
        }
    }
}

// MARK: Prepared journeys. Each one continues the one before.

extension Phone {
    /// Returns a phone that entered NEAR_CHARGER at 0 s.
    static func nearCharger(_ settings: Settings = Settings()) -> Phone {
        var phone = Phone(settings)
        phone.take(.targeted(Town.charger), at: 0)
        phone.fix(east: 200, at: 0)
        return phone
    }

    /// Returns a phone that entered ANCHORED at 130 s.
    static func anchored(_ settings: Settings = Settings()) -> Phone {
        var phone = nearCharger(settings)
        phone.fix(east: 5, at: 10)
        phone.fix(east: 5, at: 130)
        return phone
    }

    /// Returns a phone that entered SESSION_ACTIVE at 200 s. The hard deadline is at 3800 s.
    static func active(_ settings: Settings = Settings()) -> Phone {
        var phone = anchored(settings)
        phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 200)
        return phone
    }

    /// Returns a phone that entered IN_TRANSIT at 300 s. The grace deadline is at 1200 s.
    static func inTransit(_ settings: Settings = Settings()) -> Phone {
        var phone = active(settings)
        phone.fix(east: 100, at: 300)
        return phone
    }

    /// Returns a phone that entered AT_MERCHANT at 500 s.
    static func atMerchant(_ settings: Settings = Settings()) -> Phone {
        var phone = inTransit(settings)
        phone.fix(east: 1000, at: 500)
        return phone
    }
}
