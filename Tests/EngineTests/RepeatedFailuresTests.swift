// Tests how often a repeated failure is logged.

import Engine
import JourneyModel
import TestSupport
import Testing

struct RepeatedFailuresTests {
    @Test func `a failure is logged once a minute, and at once after the clock was set back`() {
        var limit = FailureLogLimit()
        let day: Int64 = 86_400_000
        let times: [Int64] = [0, 59_999, 60_000, -day, 59_999 - day, 60_000 - day]
        let allowed = times.map { limit.allowsLine(at: Moment.sample.advanced(byMilliseconds: $0)) }
        #expect(allowed == [true, false, true, true, false, true])
    }
}
