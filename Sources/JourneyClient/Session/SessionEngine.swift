// The phone's session engine: reports of the receiver, the web and the clock become events, and the events move the
// journey. The engine has no table of its own: it applies every event with `Journey.apply`, the server's fold, so an
// event has the same effect on phone and server. It owns no clock, timer, storage or network.
//
// Three rules make the order of its events the order in which the server folds them: occurred_at never goes back,
// even when the phone's clock does; `sequence` orders events of one millisecond; and a deadline that passed is
// reported, at its own moment, before anything that happened after it.

public import JourneyModel

/// One driver's journey on one phone.
///
/// A value: copies continue independently. After each `handle`, first put the `send` outputs into the queue, then
/// store the snapshot. In this order a crash in between may repeat an event, which the server's fold rejects like any
/// duplicate, but loses none.
public struct SessionEngine: Sendable {
    /// The journey as the server folds it from the events sent so far.
    public internal(set) var journey = Journey()
    public internal(set) var settings: Settings
    /// The monitored charger: that of this journey, or of the next journey once this one has ended.
    public internal(set) var charger: Place?
    /// The session's merchant; nil before a session is activated.
    public internal(set) var merchant: Place?

    var dwell = DwellDetector()
    var lastFix: LocationFix?
    var lastEventAt: Moment?
    var nextSequence: Int64 = 0
    /// The id of the session that ended, also of one that was never activated: the reset event needs a session id.
    var endedSessionID: String?
    /// Whether entering the charger's zone begins a new journey in SESSION_ENDED. A driver who is still in the zone
    /// must leave first, or choose a charger again.
    var mayReenter = true

    /// The timers and geofences that the app was asked to set and that are still in effect.
    private var timers: [EngineTimer: Moment] = [:]
    private var geofences: [Geofence] = []
    private var outputs: [EngineOutput] = []

    /// A jump of more than this between two usable fixes ends the session: no drive to a merchant is that long, and
    /// a faked position usually is (issue "Session truth", item 6).
    public static let teleportMeters = 50_000.0

    public init(settings: Settings) {
        self.settings = settings
    }

    public var state: JourneyState { journey.state }

    /// The session in progress; nil before and after.
    public var sessionID: String? { state == .sessionEnded ? nil : journey.sessionID }

    /// Handles one input reported at `now` on the phone's clock, and returns what to do, in order.
    ///
    /// Deadlines before the time of the input take effect before the input. Deadlines due at `now` take effect after
    /// it, since an event in a deadline's own millisecond still counts (contract, section 1).
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

    /// Returns the `occurred_at` of an event that happened at `moment`: never before the last event.
    func moment(of moment: Moment) -> Moment {
        max(moment, lastEventAt ?? moment)
    }
}

// MARK: Events

extension SessionEngine {
    /// Makes an event and applies it to the journey.
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

    /// Returns whether the event belongs to this engine's journey. The engine's state does not apply to the session of
    /// another phone.
    private func isOfThisJourney(_ name: EventName, _ eventSessionID: String?) -> Bool {
        eventSessionID == nil || eventSessionID == sessionID || state == .sessionEnded
            || name == .exclusiveActivatedByWeb
    }

    /// Updates the engine's state outside the journey, by the destination of a transition.
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

    /// Ends the session at every deadline before `moment`, with the event that reports the deadline.
    mutating func expireDeadlines(before moment: Moment) {
        while let deadline = journey.nextDeadline, deadline.at < moment { expire(deadline) }
    }

    mutating func expireDeadlines(upTo moment: Moment) {
        while let deadline = journey.nextDeadline, deadline.at <= moment { expire(deadline) }
    }

    /// Emits the event of a deadline. By the table this event ends the session in every state in which the deadline
    /// runs, so the loops above terminate.
    private mutating func expire(_ deadline: (name: EventName, at: Moment)) {
        emit(deadline.name, at: deadline.at, sessionID: journey.sessionID)
    }
}

// MARK: What the app has to watch

extension SessionEngine {
    /// Returns all outputs since the last call, and the changes of timers and geofences.
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

    /// Discards the timers and geofences set so far: after a restart none of them is in effect.
    mutating func clearWatchedPlaces() {
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

    /// The geofences to monitor. The anchor's circle is small for a geofence and its exit may be missed, so the larger
    /// intent circle is monitored too.
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

    /// Handles a fired timer. A timer that fired too early is set again; a dwell that is due requests a fix instead.
    private mutating func fired(_ timer: EngineTimer, at now: Moment) {
        if timer == .dwell, let due = dwell.completesAt(by: settings), due <= now {
            put(.requestFix)
        } else {
            timers[timer] = nil
        }
    }
}
