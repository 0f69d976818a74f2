// Tests of deadlines on the phone. Timers fire late, early or never. A fix from before a deadline may arrive after it,
// and the clock may be set back.

import JourneyClient
import JourneyModel
import Testing

struct EngineDeadlineTests {
    @Test("timers are set where the contract starts deadlines, and cancelled where it clears them")
    func timers() {
        var phone = Phone.active()
        #expect(phone.timers == [.hardTimeout: .at(3800)])
        phone.fix(east: 100, at: 300)
        #expect(phone.timers == [.hardTimeout: .at(3800), .gracePeriod: .at(1200)])
        phone.fix(east: 1000, at: 500)
        #expect(phone.timers == [.hardTimeout: .at(3800)])
        phone.take(.visitVerified(sessionID: Town.identifier("s1")), at: 600)
        #expect(phone.timers.isEmpty)
    }

    @Test("the grace period ends the session at its deadline, however late the timer fires")
    func graceExpires() {
        for late in [0.0, 0.4, 5000] {
            var phone = Phone.inTransit()
            phone.take(.timerFired(.gracePeriod), at: 1200 + late)
            #expect(phone.state == .sessionEnded)
            #expect(phone.sent.last?.name == .gracePeriodExpired)
            #expect(phone.sent.last?.occurredAt == .at(1200))
            #expect(phone.sent.last?.sessionID == "s1")
        }
    }

    @Test("a timer that fires early changes nothing and is set again")
    func earlyTimer() {
        var phone = Phone.inTransit()
        phone.take(.timerFired(.gracePeriod), at: 1199.999)
        #expect(phone.outputs == [.setTimer(.gracePeriod, at: .at(1200))])
        #expect(phone.state == .inTransit)
    }

    @Test("the hard timeout ends AT_MERCHANT too")
    func hardExpires() {
        var phone = Phone.atMerchant()
        phone.take(.timerFired(.hardTimeout), at: 3801)
        #expect(phone.sent.last?.name == .hardTimeoutExpired)
        #expect(phone.sent.last?.occurredAt == .at(3800))
    }

    @Test("grace comes before hard when both are due at once")
    func bothDue() {
        var phone = Phone.inTransit(Settings(gracePeriodSeconds: 900, hardTimeoutSeconds: 1000))
        phone.take(.timerFired(.hardTimeout), at: 1200)
        #expect(phone.sent.last?.name == .gracePeriodExpired)
    }

    @Test("an arrival in the deadline's own millisecond counts, one after it does not")
    func millisecond() {
        var phone = Phone.inTransit()
        phone.fix(east: 1000, at: 1200)
        #expect(phone.state == .atMerchant)
        phone = Phone.inTransit()
        phone.fix(east: 1000, at: 1200.001)
        #expect(phone.state == .sessionEnded)
        #expect(phone.names.last == .gracePeriodExpired)
    }

    @Test("fixes delivered together after the deadline count at the moments at which they were taken")
    func lateDelivery() {
        var phone = Phone.inTransit()
        let fixes = [Town.fix(east: 1000, at: 1190), Town.fix(east: 600, at: 1000), Town.fix(east: 1000, at: 4000)]
        phone.take(.fixes(fixes), at: 4000)
        #expect(phone.names.suffix(2) == [.enteredMerchantZone, .hardTimeoutExpired])
        #expect(phone.sent.suffix(2).map(\.occurredAt) == [.at(1190), .at(3800)])
    }

    @Test("a deadline runs on with the settings under which it began")
    func newSettings() {
        var phone = Phone.inTransit()
        phone.take(.settings(Settings(gracePeriodSeconds: 60, hardTimeoutSeconds: 120)), at: 310)
        #expect(phone.outputs.isEmpty)
        #expect(phone.engine.journey.graceDeadline == .at(1200))
    }

    @Test("a clock set back by up to five minutes cannot reorder events: occurred_at stays, the sequence goes on")
    func clockSetBack() {
        var phone = Phone.active()
        phone.fix(east: 100, at: -100)
        #expect(phone.state == .inTransit)
        #expect(phone.sent.last?.occurredAt == .at(200))
        phone.fix(east: 1000, at: -90)
        #expect(phone.state == .atMerchant)
        #expect(phone.sent.last?.occurredAt == .at(200))
        let placed = phone.sent.map { $0.placed(by: Settings()) }
        #expect(placed == placed.sorted())
    }

    @Test("one event made while the clock was a year ahead shifts neither the later events nor their deadlines")
    func clockWasAhead() {
        let year = 31_536_000.0
        var phone = Phone()
        phone.take(.targeted(Town.charger), at: year)
        phone.fix(east: 200, at: 100)
        #expect(phone.sent.last?.occurredAt == .at(100))
        phone.fix(east: 5, at: 110)
        phone.fix(east: 5, at: 240)
        phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 250)
        #expect(phone.sent.last?.occurredAt == .at(250))
        #expect(phone.timers == [.hardTimeout: .at(3850)])
        phone.fix(east: 100, at: 300)
        #expect(phone.timers == [.hardTimeout: .at(3850), .gracePeriod: .at(1200)])
        phone.take(.timerFired(.gracePeriod), at: 1200)
        #expect(phone.state == .sessionEnded)
    }

    @Test("a deadline that began while the clock was ahead is at most its duration away, once the clock is right")
    func deadlineBeganAhead() throws {
        for isRestarted in [false, true] {
            var phone = Phone.anchored()
            phone.take(.activated(sessionID: Town.identifier("s1"), merchant: Town.merchant), at: 31_536_000)
            if isRestarted {
                try phone.restart(at: 200)
            } else {
                phone.take(.settings(Settings()), at: 200)
            }
            #expect(phone.timers == [.hardTimeout: .at(3800)])
            phone.take(.timerFired(.hardTimeout), at: 3800)
            #expect(phone.state == .sessionEnded)
            #expect(phone.sent.last?.occurredAt == .at(3800))
        }
    }

    @Test("a clock set forward ends the session on the phone, but the server, which corrects the clock, verifies it")
    func clockSetForward() {
        for hours in [3.0, 24] {
            var phone = Phone.atMerchant()
            let sentBefore = phone.sent.count
            phone.take(.timerFired(.hardTimeout), at: 600 + hours * 3600)
            #expect(phone.names.last == .hardTimeoutExpired)
            #expect(phone.sent.last?.previousState == nil)
            phone.take(.visitVerified(sessionID: Town.identifier("s1")), at: 700 + hours * 3600)
            let placed = phone.sent.enumerated().map { index, draft in
                var event = draft.placed(by: Settings())
                if index >= sentBefore { event.occurredAt = event.occurredAt.advanced(bySeconds: Int(hours) * -3600) }
                return event
            }
            let journey = Fold.replay(Fold.inOrder(placed)).last?.journey
            #expect(journey?.endedBy == .verified)
            #expect(journey?.sessionID == "s1")
        }
    }

    @Test("a dwell that is due asks for a fix; only the fix completes it")
    func dwellTimer() {
        var phone = Phone.nearCharger()
        phone.fix(east: 5, at: 10)
        #expect(phone.timers == [.dwell: .at(130)])
        phone.take(.timerFired(.dwell), at: 131)
        #expect(phone.outputs == [.requestFix, .setTimer(.dwell, at: .at(146))])
        #expect(phone.state == .nearCharger)
        phone.fix(east: 5, at: 133)
        #expect(phone.state == .anchored)
        #expect(phone.sent.last?.occurredAt == .at(133))
        #expect(phone.timers.isEmpty)
    }

    @Test("a clock that is set back while the phone stands at the charger does not put the dwell off")
    func clockSetBackDuringDwell() {
        for aheadSeconds in [60.0, 3600] {
            var phone = Phone.nearCharger()
            phone.fix(east: 5, at: aheadSeconds)
            #expect(phone.timers == [.dwell: .at(aheadSeconds + 120)])
            phone.take(.timerFired(.dwell), at: 20)
            #expect(phone.outputs == [.setTimer(.dwell, at: .at(35))])
            phone.take(.timerFired(.dwell), at: 35)
            #expect(phone.outputs == [.requestFix, .setTimer(.dwell, at: .at(50))])
            phone.fix(east: 5, at: 36)
            phone.fix(east: 5, at: 156)
            #expect(phone.state == .anchored)
        }
        // The fix is requested while the clock is ahead.
        var phone = Phone.nearCharger()
        phone.fix(east: 5, at: 10)
        phone.take(.timerFired(.dwell), at: 7200)
        #expect(phone.timers == [.dwell: .at(7215)])
        phone.take(.timerFired(.dwell), at: 140)
        #expect(phone.outputs == [.requestFix, .setTimer(.dwell, at: .at(155))])
    }

    @Test("a fix that is too old or too inaccurate to complete the dwell is asked for again")
    func dwellTimerAgain() {
        for useless in [Town.fix(east: 5, at: 127), Town.fix(east: 5, accuracy: 65, at: 131)] {
            var phone = Phone.nearCharger()
            phone.fix(east: 5, at: 10)
            phone.take(.timerFired(.dwell), at: 130.2)
            phone.take(.fixes([useless]), at: 131)
            #expect(phone.state == .nearCharger)
            #expect(phone.timers == [.dwell: .at(145.2)])
            phone.take(.timerFired(.dwell), at: 145.1)
            #expect(phone.outputs == [.setTimer(.dwell, at: .at(145.2))], "fired too early")
            phone.take(.timerFired(.dwell), at: 145.2)
            #expect(phone.outputs == [.requestFix, .setTimer(.dwell, at: .at(175.2))])
            phone.fix(east: 5, at: 147)
            #expect(phone.state == .anchored)
            #expect(phone.timers.isEmpty)
        }
    }

    @Test("a phone whose last fix was taken while the car was being parked asks for a fix, which begins the dwell")
    func parkedAfterTheLastFix() throws {
        for isRestarted in [false, true] {
            var phone = Phone.nearCharger()
            phone.fix(east: 20, speed: 4, at: 10)
            if isRestarted { try phone.restart(at: 12) }
            #expect(phone.timers == [.dwell: .at(25)])
            phone.take(.timerFired(.dwell), at: 25)
            #expect(phone.outputs == [.requestFix, .setTimer(.dwell, at: .at(40))])
            phone.fix(east: 5, at: 26)
            #expect(phone.timers == [.dwell: .at(146)])
            phone.take(.timerFired(.dwell), at: 146)
            phone.fix(east: 5, at: 147)
            #expect(phone.state == .anchored)
            #expect(phone.timers.isEmpty)
        }
    }

    @Test("an entry into the anchor zone asks for fixes until a usable one tells where the phone is")
    func entryWithoutUsableFix() {
        for (east, timers) in [(5.0, [EngineTimer.dwell: Moment.at(146)]), (45, [:]), (200, [:])] {
            var phone = Phone.nearCharger()
            phone.take(Town.crossing(.entered, .chargerAnchor), at: 10)
            for useless in [Town.fix(east: 5, accuracy: 65, at: 11), Town.fix(east: 100, at: 9)] {
                phone.take(.fixes([useless]), at: 11)
                #expect(phone.timers == [.dwell: .at(25)])
            }
            phone.take(.timerFired(.dwell), at: 25)
            #expect(phone.outputs == [.requestFix, .setTimer(.dwell, at: .at(40))])
            phone.fix(east: east, accuracy: 20, at: 26)
            #expect(phone.timers == timers, "\(east) m east")
        }
    }

    @Test("driving through the anchor zone asks for nothing once the phone has left it")
    func drivenThrough() {
        var phone = Phone.nearCharger()
        phone.fix(east: 20, speed: 14, at: 10)
        phone.fix(east: -20, speed: 14, at: 13)
        #expect(phone.timers == [.dwell: .at(28)])
        phone.fix(east: -80, speed: 14, at: 17)
        #expect(phone.timers.isEmpty)
        phone.fix(east: 20, speed: 4, at: 100)
        phone.take(Town.crossing(.exited, .chargerAnchor), at: 105)
        #expect(phone.timers.isEmpty)
    }

    @Test("the pauses between requests for a fix grow to four minutes, and end with the stay")
    func dwellPauses() {
        var phone = Phone.nearCharger()
        phone.fix(east: 5, at: 10)
        var seconds = 130.0
        for pause in [15.0, 30, 60, 120, 240, 240] {
            phone.take(.timerFired(.dwell), at: seconds)
            seconds += pause
            #expect(phone.outputs == [.requestFix, .setTimer(.dwell, at: .at(seconds))])
        }
        phone.fix(east: 60, at: 900)
        #expect(phone.timers.isEmpty)
        phone.fix(east: 5, at: 910)
        #expect(phone.timers == [.dwell: .at(1030)])
        phone.take(.timerFired(.dwell), at: 1030)
        #expect(phone.timers == [.dwell: .at(1045)], "the pauses of another stay begin short")
    }
}
