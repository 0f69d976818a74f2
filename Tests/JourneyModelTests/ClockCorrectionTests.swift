// Tests of the correction of a phone's clock by the server's clock (contract, section 3, "Clocks").

import JourneyModel
import Testing

struct ClockCorrectionTests {
    private static let minute: Int64 = 60_000
    private static let hour: Int64 = 3_600_000
    private let received = Moment.at(100_000)
    private let minute = Self.minute
    private let hour = Self.hour

    /// A driver whose phone sends events. Call the methods in the order in which the server receives the events.
    private struct Driver {
        var memory = ClockMemory()

        /// Returns the correction of an event. The server receives the event `at` milliseconds after an arbitrary
        /// start. Each other parameter is a time of the phone's clock, in milliseconds before `at`.
        mutating func event(
            at: Int64 = 0, occurredAgo: Int64, sentAgo: Int64? = nil, timestampAgo: Int64? = nil
        ) -> ClockCorrection {
            let received = Moment.at(100_000).advanced(byMilliseconds: at)
            let result = ClockCorrection(
                occurredAt: received.advanced(byMilliseconds: -occurredAgo),
                sentAt: sentAgo.map { received.advanced(byMilliseconds: -$0) },
                timestamp: timestampAgo.map { received.advanced(byMilliseconds: -$0) }, receivedAt: received,
                memory: memory)
            memory = result.memory
            return result
        }

        /// Returns the correction of an event that the phone sends when it occurs. Its `timestamp` therefore equals its
        /// `occurred_at`.
        mutating func live(at: Int64 = 0, ago: Int64) -> ClockCorrection {
            event(at: at, occurredAgo: ago, timestampAgo: ago)
        }
    }

    // MARK: X-Sent-At

    @Test("Up to five minutes either way nothing is corrected; a millisecond more is, by the difference")
    func tolerance() {
        for (sentAgo, correction) in [
            (0, 0), (300_000, 0), (-300_000, 0), (300_001, 300_001), (-300_001, -300_001),
        ] as [(Int64, Int64)] {
            var driver = Driver()
            let result = driver.event(occurredAgo: 4 * hour, sentAgo: sentAgo, timestampAgo: 9 * hour)
            #expect(result.skewMilliseconds == sentAgo)
            #expect(result.correctionMilliseconds == correction)
            #expect(result.corrected == received.advanced(byMilliseconds: correction - 4 * hour))
            #expect(result.rule == (correction == 0 ? .rightClock : .sentAt))
            #expect(driver.memory.lastCorrectionMilliseconds == (correction == 0 ? nil : correction))
            #expect(driver.memory.sawRightClock == (correction == 0))
        }
    }

    @Test("Without a send time there is nothing to correct by")
    func noSendTime() {
        var driver = Driver(memory: ClockMemory(lastCorrectionMilliseconds: 30_000))
        let result = driver.event(occurredAgo: hour)
        #expect(result.corrected == received.advanced(byMilliseconds: -hour))
        #expect(result.skewMilliseconds == 0)
        #expect(result.correctionMilliseconds == 0)
        #expect(result.rule == .noSendTime)
        #expect(driver.memory == ClockMemory(lastCorrectionMilliseconds: 30_000))
    }

    @Test("A difference within a minute of the last correction reuses it, so that delay reorders nothing")
    func reuse() {
        let last = -2 * hour
        for (difference, correction) in [
            (last, last), (last + 60_000, last), (last - 60_000, last), (last + 60_001, last + 60_001),
            (last - 60_001, last - 60_001),
        ] {
            var driver = Driver(memory: ClockMemory(lastCorrectionMilliseconds: last))
            let result = driver.event(occurredAgo: -hour, sentAgo: difference)
            #expect(result.correctionMilliseconds == correction)
            #expect(result.rule == (correction == last ? .knownCorrection : .sentAt))
            #expect(result.skewMilliseconds == difference)
            #expect(driver.memory.lastCorrectionMilliseconds == correction)
        }
    }

    @Test("A right clock in between leaves the last correction for the phone that needs it")
    func anotherDevice() {
        var driver = Driver(memory: ClockMemory(lastCorrectionMilliseconds: -2 * hour))
        #expect(driver.event(occurredAgo: hour, sentAgo: 250).correctionMilliseconds == 0)
        #expect(driver.memory.lastCorrectionMilliseconds == -2 * hour)
        #expect(driver.event(occurredAgo: hour, sentAgo: -2 * hour + 90).correctionMilliseconds == -2 * hour)
    }

    @Test("A clock off by about five minutes is not corrected for one delivery and left alone for the next")
    func reuseBelowTheTolerance() {
        var driver = Driver()
        let first = driver.event(occurredAgo: hour, sentAgo: 300_500)
        let second = driver.event(occurredAgo: hour, sentAgo: 299_000)
        #expect(first.corrected == second.corrected)
    }

    @Test("X-Sent-At is believed at once, whatever the clocks before it and the timestamp beside it")
    func attempt() {
        var driver = Driver()
        _ = driver.live(ago: 100)
        let result = driver.event(occurredAgo: 3 * hour, sentAgo: 2 * hour, timestampAgo: 3 * hour)
        #expect(result.correctionMilliseconds == 2 * hour)
        #expect(result.rule == .sentAt)
    }

    // MARK: timestamp

    @Test("A lone stale timestamp of a phone whose clock was right stays where it occurred")
    func loneStaleTimestamp() {
        var driver = Driver()
        for at in [0, 100_000, 200_000] as [Int64] {
            #expect(driver.live(at: at, ago: 400).rule == .rightClock)
        }
        let stale = driver.live(at: 800_000, ago: 320_000)
        #expect(stale.rule == .loneTimestamp)
        #expect(stale.correctionMilliseconds == 0)
        #expect(stale.skewMilliseconds == 320_000)
        #expect(driver.live(at: 900_000, ago: 400).rule == .rightClock)
        // The phone sends this event long after it occurred. The event is not corrected, because the events before it
        // show that the phone's clock is right.
        #expect(driver.event(at: 950_000, occurredAgo: hour, timestampAgo: 500_000).correctionMilliseconds == 0)
    }

    @Test("The same when it is the first event ever: its timestamp is of the event's own moment")
    func firstEventStale() {
        var driver = Driver()
        #expect(driver.live(ago: 320_000).rule == .loneTimestamp)
        #expect(driver.live(at: 1000, ago: 400).rule == .rightClock)
        #expect(driver.memory.lastCorrectionMilliseconds == nil)
    }

    @Test("First events with a timestamp made to send are believed, and the next ones by them, in any order")
    func firstEvents() {
        let occurredAgo = [80, 78, 65, 72].map { $0 * minute }
        for shift in 0..<4 {
            var driver = Driver()
            let rules = (0..<4).map { index in
                driver.event(
                    at: Int64(index) * 20, occurredAgo: 2 * hour + occurredAgo[(index + shift) % 4],
                    timestampAgo: 2 * hour + Int64(index) * 20
                ).rule
            }
            #expect(rules == [.firstEvents, .knownCorrection, .knownCorrection, .knownCorrection])
        }
    }

    @Test("A clock that turns wrong is believed from the second event on that was received apart")
    func clockTurnsWrong() {
        var driver = Driver()
        _ = driver.live(ago: 300)
        #expect(driver.live(at: 10 * minute, ago: 2 * hour + 900).correctionMilliseconds == 0)
        #expect(driver.live(at: 11 * minute, ago: 2 * hour).rule == .loneTimestamp, "a minute apart is not enough")
        let agreed = driver.live(at: 12 * minute, ago: 2 * hour + 300)
        #expect(agreed.rule == .recentEventsAgree)
        #expect(agreed.correctionMilliseconds == 2 * hour + 300, "the smaller of two skews has less delay")
        #expect(driver.live(at: 13 * minute, ago: 2 * hour).rule == .knownCorrection)
        #expect(driver.live(at: 14 * minute, ago: 0).rule == .rightClock, "another device, or the clock is mended")
    }

    @Test("The same for a clock ahead; until it is believed its events count as received")
    func clockAhead() {
        var driver = Driver()
        _ = driver.live(ago: 300)
        let first = driver.live(at: 10 * minute, ago: -2 * hour)
        #expect(first.rule == .aheadOfReceipt)
        #expect(first.corrected == received.advanced(byMilliseconds: 10 * minute))
        let second = driver.live(at: 12 * minute, ago: -2 * hour + 50)
        #expect(second.rule == .recentEventsAgree)
        #expect(second.correctionMilliseconds == -2 * hour)
    }

    @Test("A queue of late events, each with the timestamp of its own moment, stays where it occurred")
    func lateQueue() {
        for knowsRightClock in [true, false] {
            for order in [[50, 47, 46, 30, 29], [29, 30, 46, 47, 50], [46, 29, 50, 30, 47]] as [[Int64]] {
                var driver = Driver()
                if knowsRightClock { _ = driver.live(at: -hour, ago: 0) }
                for (index, ago) in order.enumerated() {
                    let result = driver.live(at: Int64(index) * 300, ago: ago * minute)
                    #expect(result.correctionMilliseconds == 0, "\(order) \(index)")
                    #expect(result.rule == .loneTimestamp)
                }
            }
        }
    }

    @Test("Of a clock never seen right, the third event with one skew is believed also in a burst")
    func burst() {
        var driver = Driver()
        let rules = (0..<4).map { driver.live(at: $0 * 10, ago: 2 * hour + $0 * 400).rule }
        #expect(rules == [.loneTimestamp, .loneTimestamp, .recentEventsAgree, .knownCorrection])
        var known = Driver()
        _ = known.live(ago: 0)
        #expect((0..<9).allSatisfy { known.live(at: $0 * 10, ago: 2 * hour).rule == .loneTimestamp })
    }

    @Test("An hour later a lone skew supports nothing any more")
    func recent() {
        for (apart, rule) in [(hour, ClockRule.recentEventsAgree), (hour + 1, .loneTimestamp)] {
            var driver = Driver()
            _ = driver.live(ago: 0)
            _ = driver.live(at: 0, ago: 15 * minute)
            #expect(driver.live(at: apart, ago: 15 * minute).rule == rule)
        }
    }

    @Test("A stale timestamp of a clock that is known to be wrong is moved by what is known")
    func staleOfAWrongClock() {
        for (clock, isRightKnown) in [(-2 * hour, false), (-2 * hour, true), (2 * hour, false), (2 * hour, true)] {
            var driver = Driver()
            if isRightKnown { _ = driver.event(occurredAgo: 0, sentAgo: 0) }
            _ = driver.event(occurredAgo: clock, sentAgo: clock)
            let stale = driver.live(ago: clock + 400_000)
            #expect(stale.rule == .loneTimestamp)
            #expect(stale.correctionMilliseconds == clock)
        }
    }

    @Test("What is remembered has a bound, and a right clock changes it once")
    func bound() {
        var driver = Driver()
        for index in 0..<50 {
            _ = driver.live(at: Int64(index) * 1000, ago: Int64(index + 10) * 10 * minute)
            #expect(driver.memory.loneSkews.count <= ClockMemory.loneSkewsMax)
        }
        _ = driver.live(at: 60_000, ago: 0)
        let memory = driver.memory
        for index in 0..<50 { _ = driver.live(at: 70_000 + Int64(index) * 5000, ago: Int64(index) * 100) }
        #expect(driver.memory == memory)
    }

    // MARK: Limits

    @Test("What still lies more than five minutes ahead counts as the receive time")
    func future() {
        func correct(ago: Int64, sentAgo: Int64) -> ClockCorrection {
            var driver = Driver()
            return driver.event(occurredAgo: ago, sentAgo: sentAgo)
        }
        #expect(correct(ago: -300_000, sentAgo: 0).corrected == received.advanced(byMilliseconds: 300_000))
        #expect(correct(ago: -300_001, sentAgo: 0).corrected == received)
        #expect(correct(ago: -3 * hour, sentAgo: -2 * hour).corrected == received)
        #expect(correct(ago: -3 * hour, sentAgo: -2 * hour).rule == .aheadOfReceipt)
        #expect(correct(ago: -2 * hour - 300_000, sentAgo: -2 * hour).corrected != received)
    }

    @Test("The ends of time do not overflow")
    func extremes() {
        let ends = [Int64.min, -1, 0, 1, .max]
        let moments = ends.map(Moment.init(millisecondsSinceEpoch:))
        let memories = ends.flatMap { last in
            ends.map { skew in
                ClockMemory(
                    lastCorrectionMilliseconds: last, sawRightClock: skew == 0,
                    loneSkews: moments.prefix(4).map {
                        ClockMemory.LoneSkew(skewMilliseconds: skew, receivedAt: $0, count: 2)
                    })
            }
        }
        for occurred in moments {
            for sent in moments {
                for received in moments {
                    for memory in memories {
                        for isHeader in [true, false] {
                            let result = ClockCorrection(
                                occurredAt: occurred, sentAt: isHeader ? sent : nil, timestamp: sent,
                                receivedAt: received, memory: memory)
                            #expect(result.corrected.milliseconds(since: received) <= 300_000)
                        }
                    }
                }
            }
        }
    }
}
