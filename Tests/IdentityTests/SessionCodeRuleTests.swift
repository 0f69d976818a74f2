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
            guess: guess, isInProgress: isInProgress, at: now)
    }

    @Test func `the right code is accepted now`() {
        #expect(Self.judge() == .right(acceptedAt: Self.now))
        #expect(Self.judge(wrong: 4) == .right(acceptedAt: Self.now))
        #expect(Self.judge(expiresIn: 0) == .right(acceptedAt: Self.now))
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
