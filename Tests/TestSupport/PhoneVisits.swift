// Visits as released phones send them. Each event names the previous state as evidence, has a time in whole seconds,
// and has no sequence. If events are lost but later events prove them, the fold must find the same visits.

package import JourneyModel

package struct PhoneVisits: Sendable {
    /// The events in the order in which they happened.
    package private(set) var events: [OrderedEvent] = []
    /// For each visit, the index in `events` of the event that ends the visit.
    package private(set) var ends: [Int] = []

    private let start: Moment
    private let sessionPrefix: String
    private var seconds: Int64 = 0
    private var state = JourneyState.idle
    private var graceSeconds = 900
    private var hardSeconds = 3600

    package init(from start: Moment, sessionPrefix: String = "s", _ random: inout SeededRandom) {
        self.start = start
        self.sessionPrefix = sessionPrefix
        for visit in 0..<Int.random(in: 1...3, using: &random) {
            // After the end of a session, some clients return to IDLE. Others send SESSION_ENDED as the previous state
            // in the next visit's first event.
            if state == .sessionEnded, random.chance(1, in: 2) { state = .idle }
            play("\(sessionPrefix)\(visit)", &random)
        }
    }

    /// The indices of the events that may be lost, because a later event proves them. No event proves the end of a
    /// visit, so ends are excluded.
    ///
    /// An arrival directly before the hard timeout is excluded too. Without this arrival, the session ends at the grace
    /// deadline, and no event before this deadline proves the arrival.
    package var droppable: [Int] { events.indices.filter { !ends.contains($0) && !isProvenTooLate($0) } }

    private func isProvenTooLate(_ place: Int) -> Bool {
        events[place].name == .enteredMerchantZone && events[place + 1].name == .hardTimeoutExpired
    }

    private mutating func play(_ session: String, _ random: inout SeededRandom) {
        // In a third of the visits, most events occur in the same second as the previous event. In the other visits, no
        // two events share a second.
        let gaps: [Int64] = random.chance(1, in: 3) ? [0, 0, 0, 1, 5] : [1, 5, 20, 60]
        seconds += 30
        var left = 20
        while true {
            left -= 1
            seconds += gaps.randomPick(&random)
            switch state {
            case .idle, .sessionEnded: add(.enteredChargerIntentZone, nil, to: .nearCharger)
            case .nearCharger:
                if left > 0, random.chance(1, in: 4) {
                    add(.exitedChargerIntentZone, nil, to: .idle)
                } else if random.chance(1, in: 12) {
                    return end(.webRequestedEnd, nil)
                } else {
                    add(.anchorDwellComplete, nil, to: .anchored)
                }
            case .anchored:
                if left > 0, random.chance(1, in: 4) {
                    add(.anchorLost, nil, to: .nearCharger)
                } else if random.chance(1, in: 12) {
                    return end(.webRequestedEnd, nil)
                } else {
                    return drive(session, gaps, &random)
                }
            case .sessionActive, .inTransit, .atMerchant: return
            }
        }
    }

    /// Adds the events from the activation to one of the ends.
    private mutating func drive(_ session: String, _ gaps: [Int64], _ random: inout SeededRandom) {
        add(.exclusiveActivatedByWeb, session, to: .sessionActive)
        let activated = seconds
        let way: [(EventName, JourneyState)] = [(.departedCharger, .inTransit), (.enteredMerchantZone, .atMerchant)]
        let steps = [0, 1, 1, 2, 2, 2, 2].randomPick(&random)
        for (name, destination) in way.prefix(steps) {
            seconds += gaps.randomPick(&random)
            add(name, session, to: destination)
        }
        switch Int.random(in: 0..<8, using: &random) {
        case 0:
            seconds += gaps.randomPick(&random)
            end(.webRequestedEnd, session)
        case 1 where state == .inTransit:
            seconds += Int64(graceSeconds)
            end(.gracePeriodExpired, session)
        case 2 where state != .inTransit:
            seconds = activated + Int64(hardSeconds)
            end(.hardTimeoutExpired, session)
        default:
            seconds += gaps.randomPick(&random)
            end(.visitVerifiedByWeb, session)
        }
    }

    private mutating func end(_ name: EventName, _ session: String?) {
        ends.append(events.count)
        add(name, session, to: .sessionEnded)
    }

    private mutating func add(_ name: EventName, _ session: String?, to destination: JourneyState) {
        let key = "\(sessionPrefix)k\(events.count)"
        events.append(
            OrderedEvent(
                name: name, sessionID: session, chargerID: nil,
                occurredAt: start.advanced(byMilliseconds: seconds * 1000), sequence: nil, eventID: key,
                idempotencyKey: key, origin: .client, previousState: state, isWholeSecond: true,
                gracePeriodSeconds: graceSeconds, hardTimeoutSeconds: hardSeconds))
        state = destination
    }
}

extension PhoneVisits {
    /// Removes one or two of the droppable events, and returns the others.
    package func withLosses(_ random: inout SeededRandom) -> [OrderedEvent] {
        let lost = Set(droppable.shuffled(using: &random).prefix(Int.random(in: 1...2, using: &random)))
        return events.indices.filter { !lost.contains($0) }.map { events[$0] }
    }

    /// Folds `ordered` and returns how each visit ended. If the fold did not apply a visit's end event, the element is
    /// nil.
    package static func outcomes(
        of visits: PhoneVisits, in ordered: [OrderedEvent]
    ) -> [Journey.Ending?] {
        let keys = visits.ends.map { visits.events[$0].idempotencyKey }
        var outcomes: [String: Journey.Ending] = [:]
        for (event, step) in zip(ordered, Fold.replay(ordered))
        where keys.contains(event.idempotencyKey) && step.verdict.transition == .applied {
            outcomes[event.idempotencyKey] = step.journey.endedBy
        }
        return keys.map { outcomes[$0] }
    }
}
