// The phone's session engine makes events from positions, commands of the web and passed deadlines, and applies the
// events to the journey. The engine has no table of transitions of its own. It applies every event with
// `Journey.apply`, the server's fold, so that an event has the same effect on the phone and on the server. It has no
// clock, timer, storage or network access.
//
// Three rules ensure that the server folds the events in the order in which the engine makes them:
//
// 1. `occurred_at` does not decrease if the phone's clock is set back by up to five minutes. If the clock is set back
//    by more, `occurred_at` decreases. The server corrects the earlier times if the events were sent while the clock
//    was ahead (contract, section 3, "Clocks"). Otherwise `previous_state` shows the server which event came first.
// 2. `sequence` orders events of one millisecond.
// 3. A deadline that has passed is reported before anything that happened after it, with the time of the deadline.

public import JourneyModel

/// One driver's journey on one phone.
///
/// The engine is a value, so copies of it are independent.
///
/// After each `handle`, first put the `send` outputs into the queue, and then store the snapshot. In this order, a
/// crash between the two steps never loses an event. At worst, the engine makes an event a second time, and the
/// server's fold rejects the repeat.
///
/// Store the snapshot even if there were no outputs, because an input without outputs can also change the engine.
/// Examples are new settings, and the report that the phone left the charger.
public struct SessionEngine: Sendable {
    /// The journey that the server's fold makes from the events so far.
    public internal(set) var journey = Journey()
    public internal(set) var settings: Settings
    /// The charger of the present journey or, in SESSION_ENDED, of the next one.
    public internal(set) var charger: Place?
    /// The charger that was targeted in ANCHORED or during the session, if it is another than `charger`. It becomes
    /// `charger` when the anchor is lost, when the journey ends, or when another session is activated after the phone
    /// left `charger`.
    var nextCharger: Place?
    /// The merchant of the session in progress; nil while no session is in progress.
    public internal(set) var merchant: Place?

    var dwell = DwellDetector()
    var lastFix: LocationFix?
    var lastEventAt: Moment?
    var nextSequence: Int64 = 0
    /// The id of the session that ended, which the reset event needs. webRequestedEnd can also end a journey in
    /// NEAR_CHARGER or ANCHORED. The value is then the session id in that webRequestedEnd, although the session was
    /// never activated.
    var endedSessionID: String?
    /// Whether entering the charger's zone in SESSION_ENDED begins a new journey. If the driver is still in the zone
    /// when the session ends, the driver must first leave the zone, or choose a charger again.
    ///
    /// During a journey, the value is true if the phone was outside of the zone when a fix or a crossing last showed on
    /// which side of the edge it was. Crossings count too, because a suspended app gets crossings but no fixes.
    var mayReenter = true
    /// When the last crossing of the charger's zone was reported. A fix that was taken before then does not show on
    /// which side of the zone's edge the phone is now. Nil if there was no crossing since the charger was chosen, or if
    /// the clock was set back to a time before the crossing.
    var zoneCrossedAt: Moment?

    /// The timers and geofences that the app was asked to set and that are still in effect.
    private var timers: [EngineTimer: Moment] = [:]
    /// The last request for a fix that begins or completes the dwell; nil before the first one.
    private var dwellRequest: DwellRequest?
    private var geofences: [Geofence] = []
    private var outputs: [EngineOutput] = []

    /// If two successive usable fixes are farther apart than this, the session ends. No drive to a merchant is that
    /// long. A faked position is usually farther away.
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

    /// Returns the `occurred_at` of an event that happened at `moment`. It is never before the time of the last event.
    func moment(of moment: Moment) -> Moment {
        max(moment, lastEventAt ?? moment)
    }

    /// Corrects the engine's times after the phone's clock was set back. If the last event is later than `now` by more
    /// than the server's tolerance (`ClockCorrection.toleranceMilliseconds`), the engine assumes that the clock was
    /// ahead when it made that event. It then takes `now` as the time of the last event. If a deadline is further away
    /// than its whole duration, the engine moves the deadline to `now` plus this duration.
    ///
    /// Without this correction, all later events would get the time of the last event until the clock reached that
    /// time. A running deadline could be too late by the error of the clock.
    ///
    /// The assumption may be wrong: the clock may have been right at the last event, and be behind now. A deadline then
    /// becomes too early by the error of the clock. The engine cannot tell the two cases apart. It accepts an early end
    /// of the session, because a session that never ends does more harm: it also prevents the next visit.
    ///
    /// The times of the dwell and of the next request for a fix may also be too late after the clock was set back. The
    /// dwell then starts over, and the fix is requested as soon as it is due.
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

    /// Returns whether the event is sent with `previousState`. Two kinds of events are not:
    ///
    /// - An event of a session on another phone, because this engine's state says nothing about that session.
    /// - The report of a deadline that has passed. If the clock was set forward during the session, the deadline only
    ///   seems to have passed. The server corrects the time of this event by the error of the clock, and so places it
    ///   before earlier events of the session. In this position, `previousState` would make the server conclude that
    ///   the session ended before it began, and the visit would be lost.
    private func isEvidence(_ name: EventName, _ eventSessionID: String?) -> Bool {
        if name == .gracePeriodExpired || name == .hardTimeoutExpired { return false }
        return eventSessionID == nil || eventSessionID == sessionID || state == .sessionEnded
            || name == .exclusiveActivatedByWeb
    }

    /// Updates the dwell, the merchant, and the values that concern the end of a session. Called after each transition.
    private mutating func moved(from: JourneyState, by draft: EventDraft) {
        dwell.reset()
        if from == .sessionEnded { endedSessionID = nil }
        switch state {
        case .sessionEnded:
            endedSessionID = draft.sessionID
            merchant = nil
            // The charger's zone is monitored during the whole session, so the exit from it has normally been reported.
            // The fix helps if the operating system missed the exit. One request is enough: if the phone is still in
            // the zone, its exit will be reported.
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

    /// Makes `nextCharger`, the charger that was targeted during this journey, the charger of the next journey. As
    /// after a choice in SESSION_ENDED, the next journey may begin without an exit from a zone (`mayReenter`). Requests
    /// a fix, because the phone may already be in the zone of this charger. The operating system then reports no entry
    /// into the zone.
    mutating func adoptNextCharger() {
        guard let nextCharger else { return }
        charger = nextCharger
        self.nextCharger = nil
        zoneCrossedAt = nil
        mayReenter = true
        put(.requestFix)
    }

    /// Whether the whole zone of the merchant lies outside of the charger's intent zone. A phone that is at the
    /// merchant has then left the charger.
    private var isMerchantClearOfCharger: Bool {
        guard let charger, let merchant else { return false }
        return merchant.coordinate.distanceMeters(to: charger.coordinate)
            > settings.chargerIntentRadiusMeters + settings.merchantUnlockRadiusMeters
    }

    mutating func put(_ output: EngineOutput) {
        if !outputs.contains(output) { outputs.append(output) }
    }

    /// Makes and applies the event of every deadline that passes before `moment`.
    mutating func expireDeadlines(before moment: Moment) {
        while let deadline = journey.nextDeadline, deadline.at < moment { expire(deadline) }
    }

    mutating func expireDeadlines(upTo moment: Moment) {
        while let deadline = journey.nextDeadline, deadline.at <= moment { expire(deadline) }
    }

    /// Makes the event that reports a deadline. In every state in which the deadline runs, the table of transitions
    /// lets this event end the session, and with it the deadline. The loops in `expireDeadlines` therefore terminate.
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

    /// The time at which to request a fix that begins or completes the dwell. Nil if there is neither a stay nor an
    /// arrival.
    private var nextDwellRequestAt: Moment? {
        guard state == .nearCharger, let due = dwell.fixDueAt(by: settings) else { return nil }
        guard let dwellRequest, dwellRequest.due == due else { return due }
        return dwellRequest.nextAt
    }

    /// The geofences to monitor. The anchor zone is small for a geofence, so the operating system may miss an exit from
    /// it. The larger intent zone is therefore monitored too.
    ///
    /// The intent zone is also monitored after the departure. The operating system does not run the timers of a
    /// suspended app, so the end of the session may remain unnoticed. The crossing of this zone at the next visit then
    /// wakes the app: the engine first reports the deadline that has passed, and then the arrival. If the driver has
    /// targeted another charger for the next visit, the zone of that charger is monitored.
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

    /// Handles a timer that fired, and removes it from `timers`. If the timer fired too early, `finish` sets it again.
    /// If a fix for the dwell is due, this method requests the fix, and `finish` sets the timer for the next request.
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
    /// The maximum pause. The pause doubles with each request, so that requests without reception use little power.
    static let pauseSecondsMax = 240

    /// When the fix became due. This time identifies the stay or the arrival, because for another stay or arrival the
    /// fix is due at another time.
    let due: Moment
    let pauseSeconds: Int
    let nextAt: Moment

    /// - Parameter earlier: the request before this one for the same stay or arrival; nil for the first one.
    init(due: Moment, after earlier: DwellRequest?, at now: Moment) {
        self.due = due
        pauseSeconds = earlier.map { min($0.pauseSeconds * 2, Self.pauseSecondsMax) } ?? Self.firstPauseSeconds
        nextAt = now.advanced(bySeconds: pauseSeconds)
    }
}
