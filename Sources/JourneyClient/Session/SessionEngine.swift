// The phone's session engine makes events from positions, commands of the web and passed deadlines. It applies every
// event with `Journey.apply`, the server's fold, so an event has the same effect on the phone and on the server.
//
// The engine has no table of transitions of its own, and no clock, timer, storage or network access.
//
// Three rules ensure that the server folds the events in the order in which the engine makes them:
//
// 1. `occurred_at` does not decrease, except when the phone's clock is set back by more than five minutes.
// 2. `sequence` orders the events of one millisecond.
// 3. The event that reports a passed deadline has the deadline's time. The engine makes this event before all events
//    with later times.
//
// If the clock is set back by more than five minutes, the server can still find the order. If the earlier events were
// sent while the clock was ahead, the server corrects their times (contract, section 3, "Clocks"). If they were sent
// later, `previous_state` shows the order.

public import JourneyModel

/// One driver's journey on one phone.
///
/// After each `handle`, first put the `send` outputs into the queue, and then store the snapshot. In this order, a
/// crash between the two steps never loses an event. At worst, the restored engine makes the same event again, and the
/// server's fold rejects it.
///
/// Store the snapshot even if there were no outputs. For example, new settings change the engine without any output.
public struct SessionEngine: Sendable {
    /// The journey that the server's fold makes from the events so far.
    public internal(set) var journey = Journey()
    public internal(set) var settings: Settings
    /// The charger of the present journey. In SESSION_ENDED, the charger of the next journey.
    public internal(set) var charger: Place?
    /// The charger that the driver chose in ANCHORED or during a session, if it is not `charger`. It becomes `charger`
    /// in three cases: the anchor is lost, the journey ends, or another session begins after the departure.
    var nextCharger: Place?
    /// The merchant of the session in progress, if there is one.
    public internal(set) var merchant: Place?

    var dwell = DwellDetector()
    var lastFix: LocationFix?
    var lastEventAt: Moment?
    var nextSequence: Int64 = 0
    /// The session id that the reset event needs: the id in the event that ended the journey. After a webRequestedEnd
    /// in NEAR_CHARGER or ANCHORED, it is the id of a session that was never activated.
    var endedSessionID: String?
    /// Whether entering the charger's zone in SESSION_ENDED begins a new journey. A driver who is still in the zone
    /// when the session ends must first leave the zone, or choose a charger again.
    ///
    /// During a journey, the value is true if the phone was last seen outside of the zone. Fixes and crossings both
    /// update it, because a suspended app gets no fixes.
    var mayReenter = true
    /// When the most recent crossing of the charger's zone was reported. A fix taken before this time does not show on
    /// which side of the zone's edge the phone is now.
    ///
    /// Nil if there was no crossing since the charger was chosen, or if the clock was set back to before the crossing.
    var zoneCrossedAt: Moment?

    /// The timers and geofences that the app has set. `finish` outputs only changes to them.
    private var timers: [EngineTimer: Moment] = [:]
    /// The most recent request for a fix for the dwell.
    private var dwellRequest: DwellRequest?
    private var geofences: [Geofence] = []
    private var outputs: [EngineOutput] = []

    /// If two successive usable fixes are farther apart than this, the session ends. A drive to a merchant is shorter.
    /// A faked position is usually farther away.
    public static let teleportMeters = 50_000.0

    public init(settings: Settings) {
        self.settings = settings
    }

    public var state: JourneyState { journey.state }

    /// The id of the session in progress; nil before the session begins and after it has ended.
    public var sessionID: String? { state == .sessionEnded ? nil : journey.sessionID }

    /// Handles one input that was reported at `now` on the phone's clock. Returns what the app must do, in order.
    ///
    /// Deadlines before the time of the input take effect before the input. Deadlines at `now` take effect after the
    /// input, because an event in the millisecond of a deadline comes before the deadline (contract, section 1).
    public mutating func handle(_ input: EngineInput, at now: Moment) -> [EngineOutput] {
        noticeClock(at: now)
        switch input {
        case .fixes(let fixes): take(fixes, at: now)
        default:
            let occurredAt = moment(of: now)
            expireDeadlines(before: occurredAt)
            take(input, at: occurredAt, reportedAt: now)
        }
        expireDeadlines(upTo: now)
        return finish()
    }

    private mutating func take(_ input: EngineInput, at occurredAt: Moment, reportedAt: Moment) {
        switch input {
        case .targeted(let place): target(place, at: occurredAt)
        case .fixes: break
        case .crossed(let crossing): cross(crossing, at: occurredAt, reportedAt: reportedAt)
        case .timerFired(let timer): fired(timer, at: occurredAt)
        case .activated(let sessionID, let merchant): activate(sessionID, merchant, at: occurredAt)
        case .activationRejected(let reason): activationRejected(reason, at: occurredAt)
        case .visitVerified(let sessionID): command(.visitVerifiedByWeb, sessionID, at: occurredAt)
        case .endRequested(let sessionID): command(.webRequestedEnd, sessionID, at: occurredAt)
        case .resetRequested: reset(at: occurredAt)
        case .settings(let settings): use(settings)
        }
    }

    /// Returns the `occurred_at` of an event that happened at `moment`. The result is never before the previous event.
    func moment(of moment: Moment) -> Moment {
        max(moment, lastEventAt ?? moment)
    }

    /// Corrects the engine's times after the phone's clock was set back. If the last event is later than `now` by more
    /// than `ClockCorrection.toleranceMilliseconds`, the engine assumes that the clock was ahead at that event.
    ///
    /// In this case, `lastEventAt` becomes `now`. Without this change, all further events would get the time of the
    /// last event. Each deadline is limited to `now` plus the deadline's full duration.
    ///
    /// If the clock was right at the last event and is behind now, the new deadlines are too early. This is accepted,
    /// because a session that never ends would prevent the next visit.
    mutating func noticeClock(at now: Moment) {
        if let crossedAt = zoneCrossedAt, now < crossedAt { zoneCrossedAt = nil }
        dwell.noticeClock(at: now)
        if let request = dwellRequest, request.nextAt > now.advanced(bySeconds: DwellRequest.pauseSecondsMax) {
            dwellRequest = nil
        }
        guard let last = lastEventAt, last.milliseconds(since: now) > ClockCorrection.toleranceMilliseconds else {
            return
        }
        lastEventAt = now
        let graceMax = now.advanced(bySeconds: settings.gracePeriodSeconds)
        let hardMax = now.advanced(bySeconds: settings.hardTimeoutSeconds)
        journey.graceDeadline = journey.graceDeadline.map { min($0, graceMax) }
        journey.hardDeadline = journey.hardDeadline.map { min($0, hardMax) }
    }
}

// MARK: Events

extension SessionEngine {
    @discardableResult
    mutating func emit(
        _ name: EventName, at occurredAt: Moment, sessionID: String? = nil, charger: Place? = nil,
        metadata: [JSONMember] = []
    ) -> Verdict {
        let from = state
        let draft = EventDraft(
            name: name, sessionID: sessionID, chargerID: (charger ?? self.charger)?.id.text,
            merchantID: merchant?.id.text, occurredAt: moment(of: occurredAt), sequence: nextSequence,
            metadata: metadata, previousState: isEvidence(name, sessionID) ? from : nil)
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

    /// Returns whether the event is sent with `previousState`. Two kinds of events are sent without it:
    ///
    /// - An event of a session on another phone, because this engine's state says nothing about that session.
    /// - The report of a passed deadline. If the phone's clock is ahead, the server may move the report to a time
    ///   before the session began.
    ///
    ///   With `previousState`, the report would then claim that the session ended before it began.
    private func isEvidence(_ name: EventName, _ eventSessionID: String?) -> Bool {
        if name == .gracePeriodExpired || name == .hardTimeoutExpired { return false }
        return eventSessionID == nil || eventSessionID == sessionID || state == .sessionEnded
            || name == .exclusiveActivatedByWeb
    }

    private mutating func moved(from: JourneyState, by draft: EventDraft) {
        dwell.reset()
        if from == .sessionEnded { endedSessionID = nil }
        switch state {
        case .sessionEnded:
            endedSessionID = draft.sessionID
            merchant = nil
            // The operating system may have missed the exit from the charger's zone. In that case, the requested fix
            // shows that the phone is outside. One request is enough, because the operating system reports an exit that
            // happens later.
            if !mayReenter, from == .inTransit || from == .atMerchant { put(.requestFix) }
            adoptNextCharger()
        case .idle:
            merchant = nil
            adoptNextCharger()
        case .nearCharger:
            merchant = nil
            mayReenter = false
        case .atMerchant: if isMerchantClearOfCharger { mayReenter = true }
        case .anchored, .sessionActive, .inTransit: break
        }
    }

    /// Makes `nextCharger` the charger. The next journey may begin there without an exit from a zone (`mayReenter`).
    /// Requests a fix, because the operating system reports no entry if the phone is already in that charger's zone.
    mutating func adoptNextCharger() {
        guard let nextCharger else { return }
        charger = nextCharger
        self.nextCharger = nil
        zoneCrossedAt = nil
        mayReenter = true
        put(.requestFix)
    }

    /// Whether the merchant's zone lies completely outside of the charger's intent zone. If it does, a phone at the
    /// merchant has left the charger.
    private var isMerchantClearOfCharger: Bool {
        guard let charger, let merchant else { return false }
        return merchant.coordinate.distanceMeters(to: charger.coordinate)
            > settings.chargerIntentRadiusMeters + settings.merchantUnlockRadiusMeters
    }

    mutating func put(_ output: EngineOutput) {
        if !outputs.contains(output) { outputs.append(output) }
    }

    mutating func expireDeadlines(before moment: Moment) {
        while let deadline = journey.nextDeadline, deadline.at < moment { expire(deadline) }
    }

    mutating func expireDeadlines(upTo moment: Moment) {
        while let deadline = journey.nextDeadline, deadline.at <= moment { expire(deadline) }
    }

    /// Makes the event that reports a deadline. This event always ends the session and clears the deadline, so the
    /// loops in `expireDeadlines` terminate.
    private mutating func expire(_ deadline: (name: EventName, at: Moment)) {
        emit(deadline.name, at: deadline.at, sessionID: journey.sessionID)
    }
}

// MARK: Timers and geofences

extension SessionEngine {
    /// Returns all outputs since the last call, including the changes of timers and geofences.
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

    /// Discards the timers and geofences that were set so far, because none of them is in effect after a restart.
    mutating func clearWatchedPlaces() {
        timers = [:]
        dwellRequest = nil
        geofences = []
        outputs = []
    }

    private var wantedTimers: [EngineTimer: Moment] {
        var wanted: [EngineTimer: Moment] = [:]
        wanted[.gracePeriod] = journey.graceDeadline
        wanted[.hardTimeout] = journey.hardDeadline
        wanted[.dwell] = nextDwellRequestAt
        return wanted
    }

    /// When to request the next fix for the dwell. Nil if no fix is needed.
    private var nextDwellRequestAt: Moment? {
        guard state == .nearCharger, let due = dwell.fixDueAt(by: settings) else { return nil }
        guard let dwellRequest, dwellRequest.due == due else { return due }
        return dwellRequest.nextAt
    }

    /// The geofences to monitor. The anchor zone is small for a geofence, so the operating system may miss an exit from
    /// it. The larger intent zone is therefore monitored too.
    ///
    /// The intent zone is also monitored after the departure, because a suspended app's timers do not run. At the
    /// driver's next visit, the entry into the zone wakes the app. The engine then reports first any passed deadline,
    /// and then the arrival.
    private var wantedGeofences: [Geofence] {
        let hasDeparted = state == .inTransit || state == .atMerchant
        let intent = (hasDeparted ? nextCharger ?? charger : charger).map {
            Geofence(zone: .chargerIntent, place: $0, radiusMeters: settings.chargerIntentRadiusMeters)
        }
        let anchor = charger.map {
            Geofence(zone: .chargerAnchor, place: $0, radiusMeters: settings.chargerAnchorRadiusMeters)
        }
        let unlock = merchant.map {
            Geofence(zone: .merchant, place: $0, radiusMeters: settings.merchantUnlockRadiusMeters)
        }
        return switch state {
        case .idle, .atMerchant, .sessionEnded: [intent].compactMap(\.self)
        case .nearCharger, .anchored, .sessionActive: [intent, anchor].compactMap(\.self)
        case .inTransit: [intent, unlock].compactMap(\.self)
        }
    }

    /// Removes the timer from `timers`, so that `finish` sets it again if it fired too early. If a fix for the dwell is
    /// due, requests the fix.
    private mutating func fired(_ timer: EngineTimer, at now: Moment) {
        timers[timer] = nil
        guard timer == .dwell, let requestAt = nextDwellRequestAt, requestAt <= now,
            let due = dwell.fixDueAt(by: settings)
        else { return }
        let earlier = dwellRequest?.due == due ? dwellRequest : nil
        dwellRequest = DwellRequest(due: due, after: earlier, at: now)
        put(.requestFix)
    }
}

/// A request for a fix that begins or completes a dwell. The location receiver may return a fix that is too old or too
/// inaccurate, and a phone at rest reports no further fixes. The request is therefore repeated while the phone counts
/// as inside the anchor zone.
private struct DwellRequest {
    static let firstPauseSeconds = 15
    /// The pause doubles with each request up to this maximum, to save power while there is no reception.
    static let pauseSecondsMax = 240

    /// When the fix became due. All requests for the same stay or arrival have the same `due`.
    let due: Moment
    let pauseSeconds: Int
    let nextAt: Moment

    /// - Parameter earlier: the previous request with the same `due`, if there was one.
    init(due: Moment, after earlier: DwellRequest?, at now: Moment) {
        self.due = due
        pauseSeconds = earlier.map { min($0.pauseSeconds * 2, Self.pauseSecondsMax) } ?? Self.firstPauseSeconds
        nextAt = now.advanced(bySeconds: pauseSeconds)
    }
}
