// Tests of all members of a journey except its state: the session, the targets and the deadlines. The tests also check
// which events start and clear a deadline.

import JourneyModel
import Testing

struct FoldTests {
    private func journey(after events: [OrderedEvent]) -> Journey {
        Fold.replay(events.sorted()).last?.journey ?? Journey()
    }

    private let anchored: [OrderedEvent] = [
        .client(.enteredChargerIntentZone, at: .at(0), charger: "c1", id: "1"),
        .client(.anchorDwellComplete, at: .at(120), id: "2"),
    ]
    private let active = OrderedEvent.client(.exclusiveActivatedByWeb, at: .at(150), session: "s1", id: "3")
    private let departed = OrderedEvent.client(.departedCharger, at: .at(200), session: "s1", id: "4")
    private let arrived = OrderedEvent.client(.enteredMerchantZone, at: .at(300), session: "s1", id: "5")

    @Test("The activation opens the session and starts the hard deadline")
    func activation() {
        let journey = journey(after: anchored + [active])
        #expect(journey.sessionID == "s1")
        #expect(journey.hardDeadline == .at(150 + 3600))
        #expect(journey.graceDeadline == nil)
    }

    @Test("The departure starts the grace deadline, the arrival clears it, the hard one runs on")
    func graceDeadline() {
        #expect(journey(after: anchored + [active, departed]).graceDeadline == .at(200 + 900))
        let journey = journey(after: anchored + [active, departed, arrived])
        #expect(journey.graceDeadline == nil)
        #expect(journey.hardDeadline == .at(150 + 3600))
    }

    @Test("The end clears both deadlines and keeps the session's id until the reset")
    func end() {
        let end = OrderedEvent.client(.webRequestedEnd, at: .at(250), session: "s1", id: "6")
        let ended = journey(after: anchored + [active, departed, end])
        #expect(
            ended == Journey(state: .sessionEnded, sessionID: "s1", targetChargerID: "c1", endedBy: .requested))
        let reset = OrderedEvent.client(.reset, at: .at(260), session: "s1", id: "7")
        #expect(journey(after: anchored + [active, departed, end, reset]) == Journey(previousSessionID: "s1"))
    }

    @Test("A duration is that of the settings stored with the event that starts the deadline")
    func durations() {
        var active = active
        active.hardTimeoutSeconds = 1800
        var departed = departed
        (departed.gracePeriodSeconds, departed.hardTimeoutSeconds) = (60, 7200)
        var diagnostic = OrderedEvent.client(.diagnostic("x"), at: .at(210), session: "s1", id: "9")
        diagnostic.gracePeriodSeconds = 1
        let journey = journey(after: anchored + [active, departed, diagnostic])
        #expect(journey.hardDeadline == .at(150 + 1800))
        #expect(journey.graceDeadline == .at(200 + 60))
    }

    @Test("Durations beyond all time do not overflow")
    func saturation() {
        var active = active
        active.hardTimeoutSeconds = .max
        #expect(journey(after: anchored + [active]).hardDeadline == Moment(millisecondsSinceEpoch: .max))
    }

    @Test("chargerTargeted sets the target in IDLE and NEAR_CHARGER, and the next one after the end")
    func targets() {
        for state in JourneyState.allCases {
            var journey = Journey(state: state, sessionID: "s1", targetChargerID: "before")
            #expect(journey.apply(.client(.chargerTargeted, charger: "new")) == .none)
            #expect(journey.state == state)
            let setsTarget = state == .idle || state == .nearCharger
            #expect(journey.targetChargerID == (setsTarget ? "new" : "before"), "\(state)")
            #expect(journey.nextTargetChargerID == (state == .sessionEnded ? "new" : nil), "\(state)")
        }
    }

    @Test("A target named after the end is the next journey's, through either reset", arguments: [true, false])
    func nextTarget(isResetSent: Bool) {
        var journey = Journey(state: .sessionEnded, sessionID: "s1", targetChargerID: "c1")
        _ = journey.apply(.client(.chargerTargeted, charger: "c2"))
        if isResetSent { #expect(journey.apply(.client(.reset, session: "s1")) == .applied) }
        let verdict = journey.apply(.client(.enteredChargerIntentZone))
        #expect(verdict == Verdict(.applied, implied: isResetSent ? [] : .reset))
        #expect(journey == Journey(state: .nearCharger, targetChargerID: "c2", previousSessionID: "s1"))
    }

    @Test("The zone that was entered names the charger; without a charger_id the target stays")
    func enteringNamesTheCharger() {
        for (charger, expected) in [("c2", "c2"), (nil, "c1")] as [(String?, String)] {
            var journey = Journey(targetChargerID: "c1")
            _ = journey.apply(.client(.enteredChargerIntentZone, charger: charger))
            #expect(journey.targetChargerID == expected)
        }
    }

    @Test("A refold that meets the stored journey again may stop: what follows is the same")
    func earlyStop() {
        var log = JourneyLog()
        for event in anchored + [active, departed, arrived] { log.append(event) }
        let foldedBefore = log.foldedPoints
        log.append(.client(.diagnostic("late"), at: .at(10), id: "late"))
        #expect(log.foldedPoints - foldedBefore == 2, "the late event and the one that shows that nothing changed")
        #expect(log.journey == journey(after: anchored + [active, departed, arrived]))
    }

    @Test("Journeys are equal when their bytes are, so that a refold does not stop too early")
    func equality() {
        #expect(Journey(targetChargerID: "caf\u{E9}") != Journey(targetChargerID: "cafe\u{301}"))
        #expect(Journey(targetChargerID: "c1") == Journey(targetChargerID: "c1"))
        #expect(Journey(targetChargerID: "c1") != Journey())
    }
}
