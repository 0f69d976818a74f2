// The session engine of the phone: what the receiver, the web and the clock report becomes events, and the events
// move the journey. It has no table of its own: every event goes through `Journey.apply`, which is the server's fold,
// so that phone and server cannot disagree about what an event means. It owns no clock, no timer, no storage and no
// network; all of that goes in as inputs and comes out as outputs.
//
// Three things make the order of its events the order in which the server folds them: occurred_at never goes back,
// even when the phone's clock does; `sequence` tells events of one millisecond apart; and a deadline that passed is
// reported, at its own moment, before anything that happened after it.

public import JourneyModel

/// One driver's journey on one phone.
///
/// A value: copy it and both go on by themselves. After each `handle`, put the `send` outputs into the queue first
/// and store the snapshot second; a crash in between then repeats an event, which the server's fold rejects as it
/// rejects any second one, and never loses one.
public struct SessionEngine: Sendable {
    /// The journey as the server will fold it from the events sent so far.
    public internal(set) var journey = Journey()
    public internal(set) var settings: Settings
    /// The charger that is watched: the one of this journey, or after its end the one of the next.
    public internal(set) var charger: Place?
    /// Where the session leads; nil before one is activated.
    public internal(set) var merchant: Place?

    var dwell = DwellDetector()
    var lastFix: LocationFix?
    var lastEventAt: Moment?
    var nextSequence: Int64 = 0
    /// The session that ended, also when it ended before it was activated: a reset has to name one.
    var endedSessionID: String?
    /// Whether coming into the charger's zone begins a new journey in SESSION_ENDED. The driver who is still there
    /// has to leave first, or choose a charger anew.
    var mayReenter = true

    /// What the app was told to do and has not been told to stop.
    private var timers: [EngineTimer: Moment] = [:]
    private var geofences: [Geofence] = []
    private var outputs: [EngineOutput] = []

    /// A jump between two usable fixes of more than this ends the session: no drive to a merchant is that long, and
    /// a position that is made up usually is (issue "Session truth", item 6).
    public static let teleportMeters = 50_000.0

    public init(settings: Settings) {
        self.settings = settings
    }

    public var state: JourneyState { journey.state }

    /// The session in progress; nil before and after.
    public var sessionID: String? { state == .sessionEnded ? nil : journey.sessionID }

    /// Takes one input that was reported at `now` on the phone's clock, and answers what to do, in order.
    ///
    /// Deadlines that lie before what the input reports take effect before it, those that are due at `now` after it:
    /// an event in a deadline's own millisecond still counts (contract, section 1).
    public mutating func handle(_ input: EngineInput, at now: Moment) -> [EngineOutput] {
        switch input {
        case .fixes(let fixes): take(fixes, at: now)
        default:
            let occurredAt = moment(of: now)
            expireDeadlines(before: occurredAt)
            take(input, at: occurredAt)
        }
        expireDeadlines(upTo: now)
        return finish()
    }

    private mutating func take(_ input: EngineInput, at occurredAt: Moment) {
        switch input {
        case .targeted(let place): target(place, at: occurredAt)
        case .fixes: break
        case .crossed(let crossing): cross(crossing, at: occurredAt)
        case .timerFired(let timer): fired(timer, at: occurredAt)
        case .activated(let sessionID, let merchant): activate(sessionID, merchant, at: occurredAt)
        case .activationRejected(let reason): activationRejected(reason, at: occurredAt)
        case .visitVerified(let sessionID): command(.visitVerifiedByWeb, sessionID, at: occurredAt)
        case .endRequested(let sessionID): command(.webRequestedEnd, sessionID, at: occurredAt)
        case .resetRequested: reset(at: occurredAt)
        case .settings(let settings): self.settings = settings
        }
    }

    /// Where something that happened at `moment` has its place: never before the last event.
    func moment(of moment: Moment) -> Moment {
        max(moment, lastEventAt ?? moment)
    }
}

// MARK: Events

extension SessionEngine {
    /// Makes an event of what happened and moves the journey by it.
    @discardableResult
    mutating func emit(
        _ name: EventName, at occurredAt: Moment, sessionID: String? = nil, charger: Place? = nil,
        metadata: [JSONMember] = []
    ) -> Verdict {
        let from = state
        let draft = EventDraft(
            name: name, sessionID: sessionID, chargerID: (charger ?? self.charger)?.id.text,
            merchantID: merchant?.id.text, occurredAt: moment(of: occurredAt), sequence: nextSequence,
            metadata: metadata, previousState: isOfThisJourney(name, sessionID) ? from : nil)
        let verdict = journey.apply(draft.placed(by: settings))
        nextSequence = nextSequence == .max ? .max : nextSequence + 1
        lastEventAt = draft.occurredAt
        outputs.append(.send(draft))
        if state != from || verdict.transition == .applied {
            moved(from: from, by: draft)
            outputs.append(
                .transition(EngineOutput.Transition(from: from, to: state, event: name, at: draft.occurredAt)))
        }
        return verdict
    }

    /// Where the engine is says nothing about the session of another phone.
    private func isOfThisJourney(_ name: EventName, _ eventSessionID: String?) -> Bool {
        eventSessionID == nil || eventSessionID == sessionID || state == .sessionEnded
            || name == .exclusiveActivatedByWeb
    }

    /// What the engine keeps beside the journey, by where a transition leads.
    private mutating func moved(from: JourneyState, by draft: EventDraft) {
        dwell.reset()
        if from == .sessionEnded { endedSessionID = nil }
        switch state {
        case .sessionEnded:
            endedSessionID = draft.sessionID
            merchant = nil
            mayReenter = isClearOfCharger
        case .idle, .nearCharger: merchant = nil
        case .anchored, .sessionActive, .inTransit, .atMerchant: break
        }
    }

    private var isClearOfCharger: Bool {
        guard let charger else { return true }
        return lastFix?.isOutside(charger.coordinate, radiusMeters: settings.chargerIntentRadiusMeters) ?? false
    }

    mutating func put(_ output: EngineOutput) {
        if !outputs.contains(output) { outputs.append(output) }
    }

    /// Ends the session at every deadline that lies before `moment`, with the event that says so.
    mutating func expireDeadlines(before moment: Moment) {
        while let deadline = journey.nextDeadline, deadline.at < moment { expire(deadline) }
    }

    mutating func expireDeadlines(upTo moment: Moment) {
        while let deadline = journey.nextDeadline, deadline.at <= moment { expire(deadline) }
    }

    /// A deadline that runs ends a session of the state in which it runs, by the table; so the loops above end.
    private mutating func expire(_ deadline: (name: EventName, at: Moment)) {
        emit(deadline.name, at: deadline.at, sessionID: journey.sessionID)
    }
}

// MARK: What the app has to watch

extension SessionEngine {
    /// All outputs since the last call, and what of timers and geofences has changed.
    mutating func finish() -> [EngineOutput] {
        let wanted = wantedTimers
        for timer in EngineTimer.allCases where timers[timer] != wanted[timer] {
            put(wanted[timer].map { .setTimer(timer, at: $0) } ?? .cancelTimer(timer))
        }
        timers = wanted
        if wantedGeofences != geofences {
            geofences = wantedGeofences
            put(.monitor(geofences))
        }
        defer { outputs = [] }
        return outputs
    }

    /// After a restart the app does nothing yet of what it was told before.
    mutating func forgetWhatIsWatched() {
        timers = [:]
        geofences = []
        outputs = []
    }

    private var wantedTimers: [EngineTimer: Moment] {
        var wanted: [EngineTimer: Moment] = [:]
        wanted[.gracePeriod] = journey.graceDeadline
        wanted[.hardTimeout] = journey.hardDeadline
        wanted[.dwell] = state == .nearCharger ? dwell.completesAt(by: settings) : nil
        return wanted
    }

    /// The anchor's circle is small for a geofence; leaving the larger one is the second chance to notice.
    private var wantedGeofences: [Geofence] {
        let intent = charger.map {
            Geofence(zone: .chargerIntent, place: $0, radiusMeters: settings.chargerIntentRadiusMeters)
        }
        let anchor = charger.map {
            Geofence(zone: .chargerAnchor, place: $0, radiusMeters: settings.chargerAnchorRadiusMeters)
        }
        switch state {
        case .idle, .sessionEnded: return [intent].compactMap(\.self)
        case .nearCharger, .anchored, .sessionActive: return [intent, anchor].compactMap(\.self)
        case .inTransit:
            return [
                merchant.map {
                    Geofence(zone: .merchant, place: $0, radiusMeters: settings.merchantUnlockRadiusMeters)
                }
            ].compactMap(\.self)
        case .atMerchant: return []
        }
    }

    /// One that fired too early is set again. A dwell that is due waits for a fix, not for another timer.
    private mutating func fired(_ timer: EngineTimer, at now: Moment) {
        if timer == .dwell, let due = dwell.completesAt(by: settings), due <= now {
            put(.requestFix)
        } else {
            timers[timer] = nil
        }
    }
}
