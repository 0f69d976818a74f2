// Tests of fixes that arrive late, are in the future, or are unusable.

import JourneyClient
import JourneyModel
import Testing

struct StaleFixTests {
    @Test("an inaccurate fix moves no state and is not remembered")
    func inaccurate() {
        var phone = Phone.active()
        phone.fix(east: 900, accuracy: 50.5, at: 300)
        phone.fix(east: 900, accuracy: -1, at: 301)
        #expect(phone.state == .sessionActive)
        #expect(phone.outputs.isEmpty)
    }

    @Test("a fix from before the last one is old news")
    func older() {
        var phone = Phone.inTransit()
        phone.take(.fixes([Town.fix(east: 1000, at: 299)]), at: 301)
        #expect(phone.state == .inTransit)
    }

    @Test("a fix taken long before the last event does not tell where the phone was after it; a minute is not long")
    func beforeTheLastEvent() {
        var phone = Phone()
        phone.take(.targeted(Town.charger), at: 100)
        phone.take(.fixes([Town.fix(east: 10, at: 39.9)]), at: 101)
        #expect(phone.state == .idle)
        phone.take(.fixes([Town.fix(east: 10, at: 40)]), at: 101)
        #expect(phone.state == .nearCharger)
        #expect(phone.sent.last?.occurredAt == .at(100))
    }

    @Test("a fix taken before the phone left the charger's zone does not undo that, also when a restart passes it")
    func beforeTheExit() throws {
        for restarts in [false, true] {
            var phone = Phone.inTransit()
            phone.take(Town.crossing(.exited, .chargerIntent), at: 400)
            if restarts {
                try phone.restart(at: 410, fix: Town.fix(east: 100, at: 300))
            } else {
                phone.take(.fixes([Town.fix(east: 390, at: 395)]), at: 410)
            }
            phone.take(.timerFired(.gracePeriod), at: 1200)
            phone.take(Town.crossing(.entered, .chargerIntent), at: 87_000)
            #expect(phone.state == .nearCharger)
        }
    }

    @Test("a fix taken before the phone entered the charger's zone does not lead out of it")
    func beforeTheEntry() {
        var phone = Phone()
        phone.take(.targeted(Town.charger), at: 0)
        phone.take(Town.crossing(.entered, .chargerIntent), at: 1000)
        phone.take(.fixes([Town.fix(east: -700, at: 970)]), at: 1001)
        #expect(phone.state == .nearCharger)
        phone.fix(east: -700, at: 1100)
        #expect(phone.state == .idle)
    }

    @Test("a crossing reported while the clock was ahead does not hide later fixes")
    func crossingFromTheFuture() {
        var phone = Phone()
        phone.take(.targeted(Town.charger), at: 90_000)
        phone.take(Town.crossing(.exited, .chargerIntent), at: 90_000)
        phone.fix(east: 0, at: 3600)
        #expect(phone.state == .nearCharger)
    }

    @Test("a crossing of one charger's zone tells nothing about another's")
    func crossingOfAnotherCharger() {
        var phone = Phone()
        phone.take(.targeted(Town.charger), at: 0)
        phone.take(Town.crossing(.exited, .chargerIntent), at: 1000)
        phone.take(.targeted(Town.otherCharger), at: 1010)
        phone.take(.fixes([Town.fix(east: 5000, at: 990)]), at: 1011)
        #expect(phone.state == .nearCharger)
    }

    @Test("a fix from the future was taken now")
    func future() {
        var phone = Phone.inTransit()
        phone.take(.fixes([Town.fix(east: 1000, at: 90_000)]), at: 400)
        #expect(phone.state == .atMerchant)
        #expect(phone.sent.last?.occurredAt == .at(400))
    }

    @Test("moments at the ends of time do no harm")
    func endsOfTime() {
        var phone = Phone.active()
        for milliseconds in [Int64.min, .max] {
            var fix = Town.fix(east: 60, at: 0)
            fix.at = Moment(millisecondsSinceEpoch: milliseconds)
            phone.take(.fixes([fix]), at: 400)
            _ = phone.engine.handle(.fixes([fix]), at: fix.at)
            _ = phone.engine.handle(.timerFired(.hardTimeout), at: fix.at)
        }
        #expect(phone.state == .sessionEnded)
    }
}
