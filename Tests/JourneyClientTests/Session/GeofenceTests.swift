// Tests which geofences the engine watches in each state, and what a crossing does in that state. The operating system
// may report a crossing late, twice, or for a geofence that is no longer watched.

import JourneyClient
import JourneyModel
import Testing

struct GeofenceTests {
    @Test("each state watches the circles that lead on or back")
    func watched() {
        let expected: [(Phone, [Geofence.Zone])] = [
            (Phone(), []), (.nearCharger(), [.chargerIntent, .chargerAnchor]),
            (.anchored(), [.chargerIntent, .chargerAnchor]), (.active(), [.chargerIntent, .chargerAnchor]),
            (.inTransit(), [.chargerIntent, .merchant]), (.atMerchant(), [.chargerIntent]),
        ]
        for (phone, zones) in expected {
            #expect(phone.geofences.map(\.zone) == zones, "\(phone.state)")
        }
        #expect(Phone.anchored().geofences.map(\.radiusMeters) == [400, 30])
        #expect(
            Phone.inTransit().geofences == [
                Geofence(zone: .chargerIntent, place: Town.charger, radiusMeters: 400),
                Geofence(zone: .merchant, place: Town.merchant, radiusMeters: 40),
            ])
    }

    @Test("a journey by geofences alone, but for the dwell, which takes fixes")
    func byGeofences() {
        var phone = Phone()
        phone.take(.targeted(Town.charger), at: 0)
        phone.take(Town.crossing(.entered, .chargerIntent), at: 10)
        #expect(phone.state == .nearCharger)
        #expect(phone.outputs.contains(.requestFix))
        phone.take(Town.crossing(.entered, .chargerAnchor), at: 20)
        #expect(phone.state == .nearCharger)
        #expect(phone.outputs == [.requestFix, .setTimer(.dwell, at: .at(35))])
        phone.fix(east: 5, at: 30)
        phone.fix(east: 5, at: 150)
        phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 200)
        phone.take(Town.crossing(.exited, .chargerAnchor), at: 300)
        #expect(phone.state == .inTransit)
        phone.take(Town.crossing(.entered, .merchant, of: Town.merchant), at: 400)
        #expect(phone.state == .atMerchant)
    }

    @Test("leaving the larger circle is leaving the anchor too")
    func largerCircle() {
        var phone = Phone.active()
        phone.take(Town.crossing(.exited, .chargerIntent), at: 300)
        #expect(phone.state == .inTransit)
        phone = Phone.anchored()
        phone.take(Town.crossing(.exited, .chargerIntent), at: 300)
        #expect(phone.state == .idle)
        #expect(phone.names.suffix(2) == [.anchorLost, .exitedChargerIntentZone])
    }

    @Test("leaving the anchor zone ends a dwell that goes on")
    func endsDwell() {
        var phone = Phone.nearCharger()
        phone.fix(east: 5, at: 10)
        phone.take(Town.crossing(.exited, .chargerAnchor), at: 60)
        #expect(phone.timers.isEmpty)
        phone.fix(east: 5, at: 130)
        #expect(phone.state == .nearCharger)
    }

    @Test("a crossing of a place that is not watched any more, or a second one, makes no event")
    func ignored() {
        var phone = Phone.inTransit()
        let count = phone.sent.count
        phone.take(Town.crossing(.entered, .merchant, of: Town.charger), at: 310)
        phone.take(Town.crossing(.exited, .chargerIntent, of: Town.otherCharger), at: 320)
        phone.take(Town.crossing(.exited, .chargerAnchor), at: 330)
        phone.take(Town.crossing(.entered, .chargerIntent), at: 340)
        #expect(phone.sent.count == count)
        #expect(phone.state == .inTransit)
    }

    @Test("a merchant's zone entered before departing is not reported: must_depart_first")
    func merchantBeforeDeparting() {
        var phone = Phone.active()
        let count = phone.sent.count
        phone.take(Town.crossing(.entered, .merchant, of: Town.merchant), at: 210)
        #expect(phone.sent.count == count)
    }

    @Test("after the end, the system's word that the phone is inside begins nothing until it was outside")
    func afterTheEnd() {
        var phone = Phone.active()
        phone.take(.endRequested(sessionID: Town.identifier("s1")), at: 210)
        phone.take(Town.crossing(.entered, .chargerIntent), at: 211)
        #expect(phone.state == .sessionEnded)
        phone.take(Town.crossing(.exited, .chargerIntent), at: 900)
        phone.take(Town.crossing(.entered, .chargerIntent), at: 2000)
        #expect(phone.state == .nearCharger)
    }

    @Test("a departure asks for a fix, as the phone may be in the merchant's zone already")
    func departure() {
        for zone in [Geofence.Zone.chargerAnchor, .chargerIntent] {
            var phone = Phone.active()
            phone.take(Town.crossing(.exited, zone), at: 300)
            #expect(phone.state == .inTransit)
            #expect(phone.outputs.contains(.requestFix))
            phone.fix(east: 1000, at: 302)
            #expect(phone.state == .atMerchant)
        }
    }

    @Test("a zone whose size changes asks for a fix, as the phone may be on the other side of its edge already")
    func changedRadius() {
        var phone = Phone()
        phone.take(.targeted(Town.charger), at: 0)
        phone.fix(east: 600, at: 1)
        phone.take(.settings(Settings(chargerDwellSeconds: 60)), at: 10)
        #expect(phone.outputs.isEmpty)
        phone.take(.settings(Settings(chargerIntentRadiusMeters: 800)), at: 20)
        #expect(phone.outputs.contains(.requestFix))
        phone.fix(east: 600, at: 22)
        #expect(phone.state == .nearCharger)
        phone.take(.settings(Settings()), at: 30)
        #expect(phone.outputs.contains(.requestFix))
        phone.fix(east: 600, at: 32)
        #expect(phone.state == .idle)
    }

    // MARK: The next visit to the same charger

    @Test("who reached a merchant outside of the charger's zone has left it, whatever the last fix says")
    func visitAfterVisit() {
        var departedByGeofence = Phone.active()
        departedByGeofence.take(Town.crossing(.exited, .chargerAnchor), at: 300)
        for phone in [Phone.inTransit(), departedByGeofence] {
            var phone = phone
            phone.take(Town.crossing(.entered, .merchant, of: Town.merchant), at: 500)
            phone.take(.visitVerified(sessionID: Town.identifier("s1")), at: 600)
            #expect(phone.state == .sessionEnded)
            #expect(!phone.outputs.contains(.requestFix))
            phone.take(Town.crossing(.entered, .chargerIntent), at: 87_000)
            #expect(phone.state == .nearCharger)
            phone.fix(east: 5, at: 87_010)
            phone.fix(east: 5, at: 87_130)
            #expect(phone.state == .anchored)
        }
    }

    @Test("the next day after an unverified visit: arriving wakes the app, which reports the deadline and the arrival")
    func nextDayAfterUnverifiedVisit() {
        var walkedByGeofences = Phone.active()
        walkedByGeofences.take(Town.crossing(.exited, .chargerAnchor), at: 300)
        walkedByGeofences.take(Town.crossing(.exited, .chargerIntent), at: 400)
        var neverArrived = walkedByGeofences
        walkedByGeofences.take(Town.crossing(.entered, .merchant, of: Town.merchant), at: 500)
        let unverified: [(Phone, EventName, Moment)] = [
            (.atMerchant(), .hardTimeoutExpired, .at(3800)), (walkedByGeofences, .hardTimeoutExpired, .at(3800)),
            (neverArrived, .gracePeriodExpired, .at(1200)),
        ]
        for (phone, expiry, deadline) in unverified {
            var phone = phone
            #expect(phone.geofences.contains { $0.zone == .chargerIntent && $0.place == Town.charger })
            phone.take(Town.crossing(.entered, .chargerIntent), at: 87_000)
            #expect(phone.names.suffix(2) == [expiry, .enteredChargerIntentZone])
            #expect(phone.sent.suffix(2).map(\.occurredAt) == [deadline, .at(87_000)])
            #expect(phone.state == .nearCharger)
        }
        neverArrived.take(Town.crossing(.entered, .chargerIntent), at: 1100)
        #expect(neverArrived.state == .inTransit, "the visit is not over")
    }

    @Test("who came back to the charger before the end has to leave it first")
    func backBeforeTheEnd() {
        let returns: [EngineInput] = [
            .fixes([Town.fix(east: 5, at: 550)]), Town.crossing(.entered, .chargerIntent),
        ]
        for comesBack in returns {
            var phone = Phone.inTransit()
            phone.take(Town.crossing(.entered, .merchant, of: Town.merchant), at: 500)
            phone.take(comesBack, at: 550)
            phone.take(.visitVerified(sessionID: Town.identifier("s1")), at: 600)
            phone.fix(east: 5, at: 610)
            #expect(phone.state == .sessionEnded)
            phone.take(Town.crossing(.exited, .chargerIntent), at: 700)
            phone.take(Town.crossing(.entered, .chargerIntent), at: 87_000)
            #expect(phone.state == .nearCharger)
        }
    }

    @Test("a merchant within the charger's zone tells nothing: the end asks for a fix, and the zone has to be left")
    func merchantAtTheCharger() {
        let merchant = Town.place("m2", east: 150)
        var phone = Phone.anchored()
        phone.take(.activated(sessionID: Town.identifier("s1"), merchant: merchant), at: 200)
        phone.take(Town.crossing(.exited, .chargerAnchor), at: 300)
        phone.take(Town.crossing(.entered, .merchant, of: merchant), at: 400)
        phone.take(.visitVerified(sessionID: Town.identifier("s1")), at: 600)
        #expect(phone.outputs.contains(.requestFix))
        phone.take(Town.crossing(.entered, .chargerIntent), at: 601)
        phone.fix(east: 150, at: 602)
        #expect(phone.state == .sessionEnded)
        phone.take(Town.crossing(.exited, .chargerIntent), at: 900)
        phone.take(Town.crossing(.entered, .chargerIntent), at: 87_000)
        #expect(phone.state == .nearCharger)
    }

    @Test("a grace period that passes asks for a fix, which tells whether the phone has left the charger")
    func afterGrace() {
        var phone = Phone.inTransit()
        phone.take(.timerFired(.gracePeriod), at: 1200)
        #expect(phone.state == .sessionEnded)
        #expect(phone.outputs.contains(.requestFix))
        phone.fix(east: 3000, at: 1202)
        phone.take(Town.crossing(.entered, .chargerIntent), at: 87_000)
        #expect(phone.state == .nearCharger)
    }

    @Test("the exit reported in IN_TRANSIT or after the end suffices if the fix that was asked for is unusable")
    func afterGraceWithoutUsableFix() {
        for exitAt in [400.0, 1300] {
            var phone = Phone.inTransit()
            if exitAt < 1200 { phone.take(Town.crossing(.exited, .chargerIntent), at: exitAt) }
            phone.take(.timerFired(.gracePeriod), at: 1200)
            phone.fix(east: exitAt < 1200 ? 3000 : 100, accuracy: 80, at: 1202)
            #expect(phone.state == .sessionEnded)
            #expect(phone.geofences.map(\.zone) == [.chargerIntent])
            if exitAt > 1200 { phone.take(Town.crossing(.exited, .chargerIntent), at: exitAt) }
            phone.take(Town.crossing(.entered, .chargerIntent), at: 87_000)
            #expect(phone.state == .nearCharger)
        }
    }

    @Test("leaving the larger circle during the session counts after the end too")
    func leftDuringTheSession() {
        var phone = Phone.active()
        phone.take(Town.crossing(.exited, .chargerIntent), at: 300)
        phone.take(.timerFired(.gracePeriod), at: 1200)
        #expect(phone.state == .sessionEnded)
        phone.take(Town.crossing(.entered, .chargerIntent), at: 87_000)
        #expect(phone.state == .nearCharger)
    }

    @Test("a charger chosen again in its zone does not count as having left it")
    func chosenAgain() {
        var phone = Phone.nearCharger()
        phone.take(.targeted(Town.charger), at: 10)
        phone.take(.endRequested(sessionID: Town.identifier("s1")), at: 20)
        phone.fix(east: 5, at: 30)
        #expect(phone.state == .sessionEnded)
    }
}
