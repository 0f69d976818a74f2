// Tests the engine in every state with the inputs of a phone. The engine must reject an input if the contract's table
// rejects its event.

import JourneyClient
import JourneyModel
import Testing

struct SessionEngineTests {
    @Test("from IDLE to SESSION_ENDED: one event for each step, each with the ids that the contract asks for")
    func wholeJourney() {
        var phone = Phone.atMerchant()
        phone.take(.visitVerified(sessionID: Town.identifier("s1")), at: 600)
        #expect(
            phone.transitions.map(\.to) == [
                .nearCharger, .anchored, .sessionActive, .inTransit, .atMerchant, .sessionEnded,
            ])
        #expect(
            phone.names == [
                .chargerTargeted, .enteredChargerIntentZone, .anchorDwellComplete, .exclusiveActivatedByWeb,
                .departedCharger, .enteredMerchantZone, .visitVerifiedByWeb,
            ])
        #expect(phone.sent.map(\.sessionID) == [nil, nil, nil, "s1", "s1", "s1", "s1"])
        #expect(phone.sent.allSatisfy { $0.chargerID == "c1" })
        #expect(phone.sent.map(\.merchantID) == [nil, nil, nil, "m1", "m1", "m1", "m1"])
        #expect(phone.sent.map(\.sequence) == [0, 1, 2, 3, 4, 5, 6])
        #expect(phone.sent.map(\.occurredAt) == [0, 0, 130, 200, 300, 500, 600].map(Moment.at))
    }

    @Test("a zone left is a step back, and the way in can be walked again")
    func stepsBack() {
        var phone = Phone.anchored()
        phone.fix(east: 60, at: 140)
        #expect(phone.state == .nearCharger)
        phone.fix(east: 500, at: 150)
        #expect(phone.state == .idle)
        phone.fix(east: 390, at: 160)
        #expect(phone.state == .nearCharger)
        #expect(
            phone.names.dropFirst(3) == [.anchorLost, .exitedChargerIntentZone, .enteredChargerIntentZone])
        #expect(phone.sent.allSatisfy { $0.sessionID == nil })
    }

    @Test("one far fix leads from ANCHORED through NEAR_CHARGER to IDLE, as the table has no shorter way")
    func farFix() {
        var phone = Phone.anchored()
        phone.fix(east: 3000, at: 140)
        #expect(phone.state == .idle)
        #expect(phone.names.suffix(2) == [.anchorLost, .exitedChargerIntentZone])
    }

    @Test("one fix at the merchant leads from SESSION_ACTIVE through IN_TRANSIT: must_depart_first")
    func straightToTheMerchant() {
        var phone = Phone.active()
        phone.fix(east: 1000, at: 300)
        #expect(phone.state == .atMerchant)
        #expect(phone.names.suffix(2) == [.departedCharger, .enteredMerchantZone])
    }

    @Test("activation outside ANCHORED is refused as not_anchored, reported as activationRejected, and opens nothing")
    func activationRefused() {
        for phone in [Phone(), .nearCharger()] {
            var phone = phone
            phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 20)
            #expect(phone.outputs.contains(.refused(.exclusiveActivatedByWeb, .notAnchored)))
            #expect(phone.sent.last?.name == .activationRejected)
            #expect(phone.sent.last?.sessionID == nil)
            #expect(phone.sent.last?.metadata == [JSONMember("reason", .string("not_anchored"))])
            #expect(phone.engine.sessionID == nil)
            #expect(phone.engine.merchant == nil)
        }
    }

    @Test("the web's repeat of an activation is silent; another session's supersedes it, and is not superseded by it")
    func activationRepeated() {
        var phone = Phone.active()
        let count = phone.sent.count
        phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 210)
        #expect(phone.outputs.isEmpty)
        phone.take(.activated(sessionID: Town.identifier("s2"), merchant: Town.merchant), at: 220)
        #expect(phone.engine.sessionID == "s2")
        #expect(phone.sent.count == count + 1)
        phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 230)
        #expect(phone.outputs.contains(.refused(.exclusiveActivatedByWeb, .noSuchTransition)))
        #expect(phone.engine.sessionID == "s2")
    }

    @Test("a visit verified before there is a session is reported and refused as not_at_merchant")
    func verifiedTooEarly() {
        var phone = Phone.anchored()
        phone.take(.visitVerified(sessionID: Town.identifier("s1")), at: 310)
        #expect(phone.state == .anchored)
        #expect(phone.names.last == .visitVerifiedByWeb)
        #expect(phone.outputs.contains(.refused(.visitVerifiedByWeb, .notAtMerchant)))
    }

    @Test("the web ends from every state but IDLE and SESSION_ENDED; of another session only before one is active")
    func webEnd() {
        let ends: [(Phone, JourneyState)] = [
            (Phone(), .idle), (.nearCharger(), .sessionEnded), (.anchored(), .sessionEnded),
            (.active(), .sessionEnded), (.inTransit(), .sessionEnded), (.atMerchant(), .sessionEnded),
        ]
        for (phone, state) in ends {
            var phone = phone
            phone.take(.endRequested(sessionID: Town.identifier("s1")), at: 510)
            #expect(phone.state == state)
            #expect(phone.names.last == .webRequestedEnd)
        }
        var phone = Phone.inTransit()
        phone.take(.endRequested(sessionID: Town.identifier("s9")), at: 310)
        #expect(phone.state == .inTransit)
        #expect(phone.outputs.contains(.refused(.webRequestedEnd, .noSuchTransition)))
    }

    @Test("activationRejected carries the web's word for why, cut to 128 characters")
    func webRejects() {
        var phone = Phone.anchored()
        phone.take(.activationRejected(reason: String(repeating: "x", count: 300)), at: 140)
        #expect(phone.state == .anchored)
        #expect(phone.sent.last?.name == .activationRejected)
        #expect(phone.sent.last?.metadata == [JSONMember("reason", .string(String(repeating: "x", count: 128)))])
    }

    // MARK: After the end of a session

    @Test("who is still at the charger has to leave before arriving begins a new journey")
    func leaveBeforeArriving() {
        var phone = Phone.active()
        phone.take(.endRequested(sessionID: Town.identifier("s1")), at: 210)
        phone.fix(east: 5, at: 220)
        #expect(phone.state == .sessionEnded)
        phone.fix(east: 402, at: 230)
        phone.fix(east: 390, at: 240)
        #expect(phone.state == .sessionEnded, "402 m may still be inside 400 m at an accuracy of 5 m")
        phone.fix(east: 420, at: 250)
        phone.fix(east: 390, at: 260)
        #expect(phone.state == .nearCharger)
        #expect(phone.names.last == .enteredChargerIntentZone, "the reset is implied")
    }

    @Test("a charger chosen after the end is the next journey's")
    func nextCharger() {
        var phone = Phone.atMerchant()
        phone.take(.visitVerified(sessionID: Town.identifier("s1")), at: 600)
        phone.take(.targeted(Town.otherCharger), at: 610)
        #expect(phone.geofences.map(\.place.id.text) == ["c2"])
        phone.fix(east: 0, at: 620)
        #expect(phone.state == .sessionEnded)
        phone.fix(east: 4900, at: 700)
        #expect(phone.state == .nearCharger)
        #expect(phone.engine.journey.targetChargerID == "c2")
    }

    @Test("a reset leads to IDLE and names the session that ended, even one that never became active")
    func reset() {
        var phone = Phone.nearCharger()
        phone.take(.endRequested(sessionID: Town.identifier("s7")), at: 20)
        phone.take(.resetRequested, at: 30)
        #expect(phone.state == .idle)
        #expect(phone.sent.last?.name == .reset)
        #expect(phone.sent.last?.sessionID == "s7")
        phone.take(.resetRequested, at: 40)
        #expect(phone.outputs == [.refused(.reset, .noSuchTransition)])
    }

    @Test("the session that ended is neither activated again nor able to end the next journey")
    func endedSessionIsOver() {
        var phone = Phone.atMerchant()
        phone.take(.visitVerified(sessionID: Town.identifier("s1")), at: 600)
        phone.take(.targeted(Town.charger), at: 610)
        phone.fix(east: 5, at: 620)
        phone.fix(east: 5, at: 740)
        #expect(phone.state == .anchored)
        phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 750)
        #expect(phone.outputs.contains(.refused(.exclusiveActivatedByWeb, .noSuchTransition)))
        #expect(phone.names.last == .activationRejected)
        #expect(phone.sent.last?.sessionID == nil)
        #expect(phone.engine.sessionID == nil && phone.engine.merchant == nil)
        phone.take(.endRequested(sessionID: Town.identifier("s1")), at: 760)
        #expect(phone.outputs.contains(.refused(.webRequestedEnd, .noSuchTransition)))
        #expect(phone.state == .anchored)
        phone.take(.activated(sessionID: Town.identifier("s2"), merchant: Town.merchant), at: 770)
        #expect(phone.engine.sessionID == "s2")
    }

    @Test("another charger chosen near one: the first zone is left first; from ANCHORED on the choice changes nothing")
    func retarget() {
        var phone = Phone.nearCharger()
        phone.take(.targeted(Town.otherCharger), at: 10)
        #expect(phone.names.suffix(2) == [.exitedChargerIntentZone, .chargerTargeted])
        #expect(phone.sent.suffix(2).map(\.chargerID) == ["c1", "c2"])
        #expect(phone.engine.charger == Town.otherCharger)
        var anchored = Phone.anchored()
        anchored.take(.targeted(Town.otherCharger), at: 140)
        #expect(anchored.state == .anchored)
        #expect(anchored.engine.charger == Town.charger)
        #expect(anchored.engine.journey.targetChargerID == "c1")
        anchored.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 200)
        #expect(anchored.engine.charger == Town.charger, "the dwell was at this charger")
        anchored.take(.activated(sessionID: Town.identifier("s2"), merchant: Town.merchant), at: 210)
        #expect(anchored.engine.charger == Town.charger, "the phone has not left it")
    }

    @Test("another charger chosen in ANCHORED, in the same zone: it becomes the target when the phone leaves the first")
    func moveToNeighboringCharger() throws {
        let neighbor = Town.place("c2", east: 100)
        for byGeofence in [false, true] {
            var phone = Phone.anchored()
            phone.take(.targeted(neighbor), at: 140)
            #expect(phone.state == .anchored)
            try phone.restart(at: 150)
            if byGeofence { phone.take(Town.crossing(.exited, .chargerAnchor), at: 190) }
            phone.fix(east: 95, at: 200)
            #expect(phone.state == .nearCharger)
            #expect(
                phone.names.suffix(4) == [
                    .chargerTargeted, .anchorLost, .exitedChargerIntentZone, .enteredChargerIntentZone,
                ])
            #expect(phone.engine.charger == neighbor)
            #expect(phone.engine.journey.targetChargerID == "c2")
            phone.fix(east: 95, at: 210)
            phone.fix(east: 95, at: 330)
            #expect(phone.state == .anchored)
            #expect(phone.sent.last?.chargerID == "c2")
            phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 340)
            #expect(phone.state == .sessionActive)
        }
    }

    // MARK: Another charger chosen during a session

    @Test("a second session at the charger chosen in the meantime is at that charger, even after a restart")
    func secondSession() throws {
        let merchant = Town.place("m2", east: 5600)
        for isRestarted in [false, true] {
            var phone = Phone.atMerchant()
            phone.take(.targeted(Town.otherCharger), at: 800)
            #expect(phone.geofences.map(\.place) == [Town.otherCharger])
            if isRestarted { try phone.restart(at: 900) }
            phone.fix(east: 4990, at: 1000)
            phone.take(.activated(sessionID: Town.identifier("s2"), merchant: merchant), at: 1200)
            #expect(phone.state == .sessionActive)
            #expect(phone.outputs.contains(.requestFix))
            #expect(phone.sent.last?.chargerID == "c2")
            #expect(phone.engine.journey.targetChargerID == "c2")
            #expect(phone.geofences.map(\.place) == [Town.otherCharger, Town.otherCharger])
            phone.fix(east: 5000, at: 1230)
            phone.take(.timerFired(.gracePeriod), at: 2130)
            #expect(phone.state == .sessionActive)
            phone.fix(east: 5600, at: 2200)
            #expect(phone.state == .atMerchant)
            #expect(phone.engine.sessionID == "s2")
        }
    }

    @Test("a charger chosen during the session is the next journey's, unless the present one is chosen again")
    func chosenDuringSession() {
        var phone = Phone.atMerchant()
        phone.take(.targeted(Town.otherCharger), at: 800)
        var choosesAgain = phone
        phone.take(.timerFired(.hardTimeout), at: 3800)
        #expect(phone.state == .sessionEnded)
        #expect(phone.sent.last?.chargerID == "c1")
        #expect(phone.engine.charger == Town.otherCharger)
        #expect(phone.outputs.contains(.requestFix))
        phone.take(Town.crossing(.entered, .chargerIntent, of: Town.otherCharger), at: 4000)
        #expect(phone.state == .nearCharger)
        #expect(phone.engine.journey.targetChargerID == "c2")
        choosesAgain.take(.targeted(Town.charger), at: 900)
        choosesAgain.take(.visitVerified(sessionID: Town.identifier("s1")), at: 1000)
        #expect(choosesAgain.engine.charger == Town.charger)
    }
}
