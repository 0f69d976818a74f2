// Tests, in each state, a jump of more than 50 km between two usable fixes.

import JourneyClient
import JourneyModel
import Testing

struct TeleportTests {
    @Test("ends a session in progress: teleport_detected, then webRequestedEnd, both of the session")
    func endsSession() {
        for phone in [Phone.active(), .inTransit(), .atMerchant()] {
            var phone = phone
            phone.fix(east: 52_000, at: 510)
            #expect(phone.state == .sessionEnded)
            #expect(phone.names.suffix(2) == [.diagnostic("teleport_detected"), .webRequestedEnd])
            #expect(phone.sent.suffix(2).allSatisfy { $0.sessionID == "s1" && $0.occurredAt == .at(510) })
            #expect(phone.sent.last?.metadata == [JSONMember("cause", .string("teleport_detected"))])
            #expect(phone.timers.isEmpty)
        }
    }

    @Test("before a session it is reported, and the zones are left as with any far fix")
    func beforeSession() {
        var phone = Phone.anchored()
        phone.fix(east: 60_000, at: 140)
        #expect(phone.state == .idle)
        #expect(
            phone.names.suffix(3) == [.diagnostic("teleport_detected"), .anchorLost, .exitedChargerIntentZone])
        #expect(phone.sent.suffix(3).allSatisfy { $0.sessionID == nil })
    }

    @Test("a long drive of a suspended app, which ends with the entry into the zone, is none")
    func beforeTheJourney() {
        var phone = Phone()
        phone.take(.targeted(Town.charger), at: 0)
        phone.fix(east: -60_000, at: 1)
        phone.take(Town.crossing(.entered, .chargerIntent), at: 3600)
        phone.fix(east: 5, at: 3605)
        #expect(phone.state == .nearCharger)
        #expect(phone.names == [.chargerTargeted, .enteredChargerIntentZone])
        phone.fix(east: 60_000, at: 3615)
        #expect(phone.names.contains(.diagnostic("teleport_detected")))
    }

    @Test("a long drive of a suspended app to another charger, where the next session is activated, is none")
    func betweenSessions() {
        let merchant = Town.place("m3", east: 80_600)
        var phone = Phone.atMerchant()
        phone.take(.targeted(Town.place("c3", east: 80_000)), at: 600)
        phone.take(.activated(sessionID: Town.identifier("s2"), merchant: merchant), at: 3000)
        phone.fix(east: 80_005, at: 3005)
        #expect(phone.state == .sessionActive)
        #expect(phone.engine.sessionID == "s2")
        phone.fix(east: 80_600, at: 3300)
        #expect(phone.state == .atMerchant)
        phone.fix(east: 0, at: 3310)
        #expect(phone.names.suffix(2) == [.diagnostic("teleport_detected"), .webRequestedEnd])
    }

    @Test("without a journey under way it is nobody's business")
    func idle() {
        var phone = Phone()
        phone.fix(east: 0, at: 0)
        phone.fix(east: 90_000, at: 10)
        #expect(phone.sent.isEmpty)
    }

    @Test("50 km is not more than 50 km, and an inaccurate fix is no jump")
    func limits() {
        var phone = Phone.atMerchant()
        phone.fix(east: 50_900, at: 510)
        #expect(phone.state == .atMerchant)
        phone = Phone.atMerchant()
        phone.fix(east: 90_000, accuracy: 51, at: 510)
        phone.fix(east: 1000, at: 520)
        #expect(phone.state == .atMerchant)
    }
}
