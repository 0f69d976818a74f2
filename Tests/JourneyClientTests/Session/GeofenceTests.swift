// Tests of the geofences that are watched in each state, and of the effect that a crossing has in that state. The
// operating system may report crossings late or twice, and for places that are no longer watched.

import JourneyClient
import JourneyModel
import Testing

struct GeofenceTests {
    private func crossing(
        _ direction: GeofenceCrossing.Direction, _ zone: Geofence.Zone, of place: Place = Town.charger
    ) -> EngineInput {
        .crossed(GeofenceCrossing(direction, zone, of: place.id))
    }

    @Test("each state watches the circles that lead on or back")
    func watched() {
        let expected: [(Phone, [Geofence.Zone])] = [
            (Phone(), []), (.nearCharger(), [.chargerIntent, .chargerAnchor]),
            (.anchored(), [.chargerIntent, .chargerAnchor]), (.active(), [.chargerIntent, .chargerAnchor]),
            (.inTransit(), [.merchant]), (.atMerchant(), []),
        ]
        for (phone, zones) in expected {
            #expect(phone.geofences.map(\.zone) == zones, "\(phone.state)")
        }
        #expect(Phone.anchored().geofences.map(\.radiusMeters) == [400, 30])
        #expect(Phone.inTransit().geofences == [Geofence(zone: .merchant, place: Town.merchant, radiusMeters: 40)])
    }

    @Test("a journey by geofences alone, but for the dwell, which takes fixes")
    func byGeofences() {
        var phone = Phone()
        phone.take(.targeted(Town.charger), at: 0)
        phone.take(crossing(.entered, .chargerIntent), at: 10)
        #expect(phone.state == .nearCharger)
        #expect(phone.outputs.contains(.requestFix))
        phone.take(crossing(.entered, .chargerAnchor), at: 20)
        #expect(phone.state == .nearCharger)
        #expect(phone.outputs == [.requestFix])
        phone.fix(east: 5, at: 30)
        phone.fix(east: 5, at: 150)
        phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 200)
        phone.take(crossing(.exited, .chargerAnchor), at: 300)
        #expect(phone.state == .inTransit)
        phone.take(crossing(.entered, .merchant, of: Town.merchant), at: 400)
        #expect(phone.state == .atMerchant)
    }

    @Test("leaving the larger circle is leaving the anchor too")
    func largerCircle() {
        var phone = Phone.active()
        phone.take(crossing(.exited, .chargerIntent), at: 300)
        #expect(phone.state == .inTransit)
        phone = Phone.anchored()
        phone.take(crossing(.exited, .chargerIntent), at: 300)
        #expect(phone.state == .idle)
        #expect(phone.names.suffix(2) == [.anchorLost, .exitedChargerIntentZone])
    }

    @Test("leaving the anchor zone ends a dwell that goes on")
    func endsDwell() {
        var phone = Phone.nearCharger()
        phone.fix(east: 5, at: 10)
        phone.take(crossing(.exited, .chargerAnchor), at: 60)
        #expect(phone.timers.isEmpty)
        phone.fix(east: 5, at: 130)
        #expect(phone.state == .nearCharger)
    }

    @Test("a crossing of a place that is not watched any more, or a second one, makes no event")
    func ignored() {
        var phone = Phone.inTransit()
        let count = phone.sent.count
        phone.take(crossing(.entered, .merchant, of: Town.charger), at: 310)
        phone.take(crossing(.exited, .chargerIntent, of: Town.otherCharger), at: 320)
        phone.take(crossing(.exited, .chargerAnchor), at: 330)
        phone.take(crossing(.entered, .chargerIntent), at: 340)
        #expect(phone.sent.count == count)
        #expect(phone.state == .inTransit)
    }

    @Test("a merchant's zone entered before departing is not reported: must_depart_first")
    func merchantBeforeDeparting() {
        var phone = Phone.active()
        let count = phone.sent.count
        phone.take(crossing(.entered, .merchant, of: Town.merchant), at: 210)
        #expect(phone.sent.count == count)
    }

    @Test("after the end, the system's word that the phone is inside begins nothing until it was outside")
    func afterTheEnd() {
        var phone = Phone.active()
        phone.take(.endRequested(sessionID: Town.identifier("s1")), at: 210)
        phone.take(crossing(.entered, .chargerIntent), at: 211)
        #expect(phone.state == .sessionEnded)
        phone.take(crossing(.exited, .chargerIntent), at: 900)
        phone.take(crossing(.entered, .chargerIntent), at: 2000)
        #expect(phone.state == .nearCharger)
    }
}
