// Tests of the rule about entered verification codes (contract, section 3, "Verification codes").

import JourneyModel
import Testing

@testable import Identity

struct SessionCodeRuleTests {
    private static let now = Moment(millisecondsSinceEpoch: 1_800_000_000_000)
    private static let right: [UInt8] = [1, 2, 3]

    private static func judge(
        _ guess: [UInt8] = right, wrong: Int = 0, acceptedAt: Moment? = nil, isInProgress: Bool = true,
        expiresIn seconds: Int = 60
    ) -> SessionCodeRule {
        .judge(
            StoredSessionCode(
                digest: right, expiresAt: now.advanced(bySeconds: seconds), wrongCount: wrong, acceptedAt: acceptedAt),
            guess: guess, verifiedAt: isInProgress ? now : nil, at: now)
    }

    /// Returns the verification time in a session that began `seconds` after `now`. The session lasts at most an hour.
    private static func verified(beginningAfter seconds: Int, lastEventAt: Moment?) -> Moment {
        var journey = Journey()
        journey.state = .sessionActive
        journey.hardDeadline = now.advanced(bySeconds: seconds + 3600)
        return SessionCodeRule.verificationTime(of: journey, lastEventAt: lastEventAt, at: now)
    }

    @Test func `the right code is accepted now`() {
        #expect(Self.judge() == .right(acceptedAt: Self.now))
        #expect(Self.judge(wrong: 4) == .right(acceptedAt: Self.now))
        #expect(Self.judge(expiresIn: 0) == .right(acceptedAt: Self.now))
    }

    @Test func `a verification comes after the driver's last event, and not after the deadline`() {
        #expect(Self.verified(beginningAfter: -60, lastEventAt: nil) == Self.now)
        #expect(Self.verified(beginningAfter: -60, lastEventAt: Self.now.advanced(bySeconds: -1)) == Self.now)
        #expect(
            Self.verified(beginningAfter: -60, lastEventAt: Self.now) == Self.now.advanced(byMilliseconds: 1))
        let ahead = Self.now.advanced(bySeconds: 180)
        #expect(Self.verified(beginningAfter: 180, lastEventAt: ahead) == ahead.advanced(byMilliseconds: 1))
        #expect(Self.verified(beginningAfter: 180 - 3600, lastEventAt: ahead) == ahead)
    }

    @Test func `the fifth wrong code is the last, and then the right one is too late`() {
        for count in 0..<5 {
            #expect(Self.judge([9, 9, 9], wrong: count) == .wrong(triesLeft: 4 - count))
        }
        #expect(Self.judge([9, 9, 9], wrong: 5) == .unavailable)
        #expect(Self.judge(wrong: 5) == .unavailable)
    }

    @Test func `nothing is accepted after the expiry or without a session in progress`() {
        for guess in [Self.right, [9, 9, 9]] {
            #expect(Self.judge(guess, expiresIn: -1) == .unavailable)
            #expect(Self.judge(guess, isInProgress: false) == .unavailable)
        }
    }

    @Test func `a repeat of the accepted code gets its first time, whatever has happened since`() {
        let earlier = Self.now.advanced(bySeconds: -30)
        let repeated = Self.judge(wrong: 4, acceptedAt: earlier, isInProgress: false, expiresIn: -10)
        #expect(repeated == .right(acceptedAt: earlier))
        #expect(Self.judge([9, 9, 9], acceptedAt: earlier) == .unavailable)
    }
}
