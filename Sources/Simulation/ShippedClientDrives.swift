// The drives of shipped clients, which use the routes of v1. They send each event with its time in whole seconds and
// the state before it. Each scenario shows a problem of real clients.

import JourneyModel

extension Scenario {
    /// Whether shipped clients are simulated. Their events have `metadata.previous_state`.
    var isOfShippedClients: Bool {
        switch self {
        case .lostEvents, .verifiedAnywhere, .staleTimestamp, .rebuiltBody, .earlyEnd, .sameSecond, .targetSetAgain:
            true
        case .happyPath, .offlineGap, .clockJump, .duplicates, .shuffledDelivery, .forceQuit, .retriedSignIn: false
        }
    }
}

extension DriveScript {
    mutating func driveShippedClient(from start: JourneyState) {
        switch scenario {
        case .lostEvents: loseEvents(from: start)
        case .verifiedAnywhere: verifyAnywhere(from: start)
        case .staleTimestamp: retryLate(from: start)
        case .earlyEnd: endEarly(from: start)
        case .sameSecond: happenWithinASecond(from: start)
        case .targetSetAgain: setTargetAgain(from: start)
        default:
            anchor(from: start)
            visit(sessionID)
        }
    }

    // MARK: The scenarios

    /// Up to two events are not sent. An event may be left out only if a later event proves it.
    private mutating func loseEvents(from state: JourneyState) {
        var phone = state
        var lossesLeft = Int.random(in: 1...2, using: &random)
        func report(_ name: EventName, _ session: String?, to destination: JourneyState, _ seconds: ClosedRange<Int64>)
        {
            pass(seconds: seconds)
            defer { phone = destination }
            let isProvenLater = destination != .sessionEnded && name != .chargerTargeted
            if isProvenLater, lossesLeft > 0, random.happens(inPercent: 25) {
                lossesLeft -= 1
            } else {
                say(name, session, from: phone)
            }
        }
        report(.enteredChargerIntentZone, nil, to: .nearCharger, 10...60)
        if random.happens(inPercent: 40) {
            report(.exitedChargerIntentZone, nil, to: .idle, 10...60)
            report(.enteredChargerIntentZone, nil, to: .nearCharger, 0...0)
        }
        report(.anchorDwellComplete, nil, to: .anchored, 120...300)
        if random.happens(inPercent: 30) {
            report(.exitedChargerIntentZone, nil, to: .idle, 5...60)
            report(.enteredChargerIntentZone, nil, to: .nearCharger, 5...60)
            report(.anchorDwellComplete, nil, to: .anchored, 120...300)
        }
        if random.happens(inPercent: 20) {
            report(.webRequestedEnd, nil, to: .sessionEnded, 1...5)
            report(.enteredChargerIntentZone, nil, to: .nearCharger, 5...60)
            report(.anchorDwellComplete, nil, to: .anchored, 120...300)
        }
        if random.happens(inPercent: 30) {
            report(.exclusiveActivatedByWeb, "\(prefix)-left", to: .sessionActive, 5...30)
            report(.chargerTargeted, nil, to: .anchored, 5...30)
        }
        report(.exclusiveActivatedByWeb, sessionID, to: .sessionActive, 5...30)
        activatedAt = now
        // The events after the activation happen within a second, before the shortest deadlines that the settings
        // allow.
        if random.happens(inPercent: 80) {
            report(.departedCharger, sessionID, to: .inTransit, 0...0)
            if random.happens(inPercent: 60) { report(.enteredMerchantZone, sessionID, to: .atMerchant, 0...1) }
        }
        report(.visitVerifiedByWeb, sessionID, to: .sessionEnded, 0...0)
    }

    private mutating func verifyAnywhere(from start: JourneyState) {
        anchor(from: start)
        activate(sessionID)
        let hasDeparted = random.happens(inPercent: 60)
        if hasDeparted { say(.departedCharger, sessionID, from: .sessionActive) }
        add(
            .visitVerifiedByWeb, afterPerMille: 500...900, of: min(graceMilliseconds, hardMilliseconds),
            session: sessionID)
        reportState(hasDeparted ? .inTransit : .sessionActive)
    }

    /// The arrival and the verification each happen shortly before a deadline, but are reported after it. The server
    /// must not treat these delays as clock errors.
    ///
    /// The two delays differ, because equal delays may count as a clock error (`ClockMemory.agreed`). Both are shorter
    /// than the clock errors of `clock-jump`.
    private mutating func retryLate(from start: JourneyState) {
        anchor(from: start)
        activate(sessionID)
        say(.departedCharger, sessionID, from: .sessionActive)
        for index in events.indices { events[index].timestamp = .ofAnAttempt(secondsBefore: 0) }
        add(.enteredMerchantZone, afterPerMille: 900...990, of: graceMilliseconds, session: sessionID)
        reportState(.inTransit, secondsBefore: Int64.random(in: 310...330, using: &random))
        let left = max(activatedAt + hardMilliseconds - now, 1)
        add(.visitVerifiedByWeb, afterPerMille: 900...990, of: left, session: sessionID)
        reportState(.atMerchant, secondsBefore: Int64.random(in: 450...470, using: &random))
    }

    private mutating func endEarly(from start: JourneyState) {
        let isAnchored = random.happens(inPercent: 60)
        say(.enteredChargerIntentZone, from: start, after: 10...60)
        // In some drives, the dwell event is not sent. The end event proves it by reporting the state ANCHORED.
        if isAnchored, random.happens(inPercent: 70) {
            say(.anchorDwellComplete, from: .nearCharger, after: 120...300)
        }
        say(.webRequestedEnd, from: isAnchored ? .anchored : .nearCharger, after: 1...5)
        anchor(from: .sessionEnded)
        visit(sessionID)
    }

    private mutating func happenWithinASecond(from start: JourneyState) {
        say(.enteredChargerIntentZone, from: start, after: 10...60)
        say(.exitedChargerIntentZone, from: .nearCharger, after: 10...60)
        say(.enteredChargerIntentZone, from: .idle)
        let isWholeQueue = random.happens(inPercent: 50)
        say(.anchorDwellComplete, from: .nearCharger, after: isWholeQueue ? 0...0 : 120...300)
        visit(sessionID, within: isWholeQueue ? 0...0 : 0...1)
    }

    private mutating func setTargetAgain(from start: JourneyState) {
        anchor(from: start)
        if random.happens(inPercent: 40) {
            say(.exitedChargerIntentZone, from: .anchored, after: 5...60)
            anchor(from: .idle)
        }
        let first = "\(prefix)-first"
        activate(first)
        let hasDeparted = random.happens(inPercent: 40)
        if hasDeparted { say(.departedCharger, first, from: .sessionActive) }
        say(.chargerTargeted, from: hasDeparted ? .inTransit : .sessionActive)
        // In half of the drives, the phone sends the two events of its way to the charger again for the second
        // activation. In the other half, it does not, and the activation proves them.
        if random.happens(inPercent: 50) {
            say(.enteredChargerIntentZone, from: .idle)
            say(.anchorDwellComplete, from: .nearCharger)
        }
        activate(sessionID, after: 0...1)
        if random.happens(inPercent: 20) { say(.hardTimeoutExpired, first, from: .sessionActive) }
        finish(sessionID)
    }

    // MARK: Parts of a drive

    private mutating func anchor(from start: JourneyState) {
        say(.enteredChargerIntentZone, from: start, after: 10...60)
        say(.anchorDwellComplete, from: .nearCharger, after: 120...300)
    }

    private mutating func activate(_ session: String, after seconds: ClosedRange<Int64> = 5...30) {
        say(.exclusiveActivatedByWeb, session, from: .anchored, after: seconds)
        activatedAt = now
    }

    /// All events after the activation happen within a second, before the shortest deadlines that the settings allow.
    private mutating func visit(_ session: String, within seconds: ClosedRange<Int64> = 0...1) {
        activate(session, after: seconds == 0...0 ? 0...0 : 5...30)
        finish(session, within: seconds)
    }

    private mutating func finish(_ session: String, within seconds: ClosedRange<Int64> = 0...1) {
        say(.departedCharger, session, from: .sessionActive)
        say(.enteredMerchantZone, session, from: .inTransit, after: seconds)
        say(.visitVerifiedByWeb, session, from: .atMerchant)
    }

    // MARK: Events

    private mutating func say(
        _ name: EventName, _ session: String? = nil, from state: JourneyState,
        after seconds: ClosedRange<Int64> = 0...0
    ) {
        pass(seconds: seconds)
        add(name, session: session)
        reportState(state)
    }

    private mutating func reportState(_ state: JourneyState, secondsBefore: Int64? = nil) {
        guard let last = events.indices.last else { return }
        events[last].previousState = state
        events[last].isWholeSecond = true
        if let secondsBefore { events[last].timestamp = .ofAnAttempt(secondsBefore: secondsBefore) }
    }
}
