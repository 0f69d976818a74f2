// Tests the values of the RateLimit fields and of Retry-After.

import Engine
import JourneyModel
import RateLimiting
import Testing

@testable import API

struct RateLimitValuesTests {
    private func ingested(_ limitClass: RateLimitClass, limit: Int, remaining: Int, reset: Int64) -> Ingested {
        Ingested(
            outcome: .rateLimited, limitClass: limitClass,
            quota: Quota(limit: limit, windowSeconds: 60, remaining: remaining, resetMilliseconds: reset))
    }

    @Test func policyNamesEachLimitThatIsOn() {
        #expect(RateLimitValues.policy(RateLimits()) == #""session";q=60;w=60, "presession";q=30;w=60"#)
        #expect(RateLimitValues.policy(RateLimits(sessionEvents: 0)) == #""presession";q=30;w=60"#)
        #expect(RateLimitValues.policy(RateLimits(sessionEvents: 0, preSessionEvents: 0)) == nil)
    }

    @Test func standingRoundsSecondsUp() {
        #expect(
            RateLimitValues.rateLimit([ingested(.sessionEvents, limit: 60, remaining: 3, reset: 1001)])
                == #""session";r=3;t=2"#)
        #expect(RateLimitValues.rateLimit([ingested(.sessionEvents, limit: 0, remaining: 0, reset: 0)]) == nil)
    }

    @Test(arguments: [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_999, 60), (9_999_999, 3600)] as [(Int64, Int)])
    func retryAfterIsWholeSecondsWithinBounds(_ reset: Int64, _ seconds: Int) {
        let quota = Quota(limit: 60, windowSeconds: 60, remaining: 0, resetMilliseconds: reset)
        #expect(RateLimitValues.retryAfterSeconds(quota) == seconds)
    }
}
