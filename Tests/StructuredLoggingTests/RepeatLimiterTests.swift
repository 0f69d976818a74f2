// Tests the limit on the number of lines per second with the same message. A later line reports how many lines were
// omitted.
//
// The table of messages has a maximum size.

import Testing

@testable import StructuredLogging

@Suite struct RepeatLimiterTests {
    @Test func `a message is written so often in a second, and its next line has the count of the rest`() {
        let limiter = RepeatLimiter()
        let first = (0..<1000).map { limiter.admit("store error", atMilliseconds: 5000 + Int64($0 % 1000)) }
        #expect(first.count { $0 != nil } == RepeatLimiter.linesPerSecondMax)
        #expect(limiter.admit("another", atMilliseconds: 5999) == 0)
        #expect(limiter.admit("store error", atMilliseconds: 6000) == 1000 - RepeatLimiter.linesPerSecondMax)
        #expect(limiter.admit("store error", atMilliseconds: 6001) == 0)
    }

    @Test func `messages that are bounded elsewhere are all written`() {
        let limiter = RepeatLimiter(unlimited: ["request"])
        #expect((0..<1000).allSatisfy { _ in limiter.admit("request", atMilliseconds: 1) == 0 })
    }

    @Test func `messages beyond the table share one place`() {
        let limiter = RepeatLimiter()
        for number in 0..<5000 { _ = limiter.admit("message \(number)", atMilliseconds: 1) }
        #expect(limiter.messageCount <= RepeatLimiter.messagesMax + 1)
    }
}
