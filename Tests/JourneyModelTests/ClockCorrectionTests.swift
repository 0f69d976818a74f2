// A phone's clock against the server's (contract, section 3, "Three times are kept").

import JourneyModel
import Testing

struct ClockCorrectionTests {
    private let received = Moment.at(100_000)
    private let hour: Int64 = 3_600_000

    private func correct(
        ago: Int64, sentAgo: Int64?, last: Int64? = nil
    ) -> ClockCorrection {
        ClockCorrection(
            occurredAt: received.advanced(byMilliseconds: -ago),
            sentAt: sentAgo.map { received.advanced(byMilliseconds: -$0) }, receivedAt: received,
            lastCorrectionMilliseconds: last)
    }

    @Test("Up to five minutes either way nothing is corrected; a millisecond more is, by the difference")
    func tolerance() {
        for (sentAgo, correction) in [
            (0, 0), (300_000, 0), (-300_000, 0), (300_001, 300_001), (-300_001, -300_001),
        ] as [(Int64, Int64)] {
            let result = correct(ago: 4 * hour, sentAgo: sentAgo)
            #expect(result.skewMilliseconds == sentAgo)
            #expect(result.correctionMilliseconds == correction)
            #expect(result.corrected == received.advanced(byMilliseconds: correction - 4 * hour))
            #expect(result.lastCorrectionMilliseconds == (correction == 0 ? nil : correction))
        }
    }

    @Test("Without a send time there is nothing to correct by")
    func noSendTime() {
        let result = correct(ago: hour, sentAgo: nil, last: 30_000)
        #expect(result.corrected == received.advanced(byMilliseconds: -hour))
        #expect(result.skewMilliseconds == 0)
        #expect(result.correctionMilliseconds == 0)
        #expect(result.lastCorrectionMilliseconds == 30_000)
    }

    @Test("A difference within a minute of the last correction reuses it, so that delay reorders nothing")
    func reuse() {
        let last = -2 * hour
        for (difference, correction) in [
            (last, last), (last + 60_000, last), (last - 60_000, last), (last + 60_001, last + 60_001),
            (last - 60_001, last - 60_001),
        ] {
            let result = correct(ago: -hour, sentAgo: difference, last: last)
            #expect(result.correctionMilliseconds == correction)
            #expect(result.skewMilliseconds == difference)
            #expect(result.lastCorrectionMilliseconds == correction)
        }
    }

    @Test("A right clock in between leaves the last correction for the phone that needs it")
    func anotherDevice() {
        let result = correct(ago: hour, sentAgo: 250, last: -2 * hour)
        #expect(result.correctionMilliseconds == 0)
        #expect(result.lastCorrectionMilliseconds == -2 * hour)
    }

    @Test("A clock off by about five minutes is not corrected for one delivery and left alone for the next")
    func reuseBelowTheTolerance() {
        let first = correct(ago: hour, sentAgo: 300_500)
        let second = correct(ago: hour, sentAgo: 299_000, last: first.lastCorrectionMilliseconds)
        #expect(first.corrected == second.corrected)
    }

    @Test("What still lies more than five minutes ahead counts as the receive time")
    func future() {
        #expect(correct(ago: -300_000, sentAgo: 0).corrected == received.advanced(byMilliseconds: 300_000))
        #expect(correct(ago: -300_001, sentAgo: 0).corrected == received)
        #expect(correct(ago: -3 * hour, sentAgo: -2 * hour).corrected == received)
        #expect(correct(ago: -2 * hour - 300_000, sentAgo: -2 * hour).corrected != received)
    }

    @Test("The ends of time do not overflow")
    func extremes() {
        let ends = [Int64.min, -1, 0, 1, .max].map(Moment.init(millisecondsSinceEpoch:))
        for occurred in ends {
            for sent in ends {
                for received in ends {
                    for last in [Int64.min, 0, .max] {
                        let result = ClockCorrection(
                            occurredAt: occurred, sentAt: sent, receivedAt: received, lastCorrectionMilliseconds: last)
                        #expect(result.corrected.milliseconds(since: received) <= 300_000)
                    }
                }
            }
        }
    }
}
