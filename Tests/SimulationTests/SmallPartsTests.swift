// Tests of three parts that need no server: the histogram, the server's clock and the progress display.

import JourneyModel
import Simulation
import Testing

struct SmallPartsTests {
    @Test("percentiles are right within two percent, the maximum exactly")
    func latencies() {
        var latencies = Latencies()
        for microseconds in (1...10_000).reversed() { latencies.add(microseconds: microseconds) }
        #expect(latencies.count == 10_000)
        #expect(latencies.maxMicroseconds == 10_000)
        for (share, exact) in [(0.5, 5000), (0.99, 9900), (0.01, 100)] {
            let found = latencies.microseconds(at: share)
            #expect(found >= exact && found <= exact + exact / 50, "\(share): \(found)")
        }
        #expect(latencies.microseconds(at: 1) == 10_000)
    }

    @Test("no latency at all, and ones beyond any clock, do no harm")
    func latencyEdges() {
        var latencies = Latencies()
        #expect(latencies.microseconds(at: 0.99) == 0)
        for microseconds in [Int.min, -1, 0, 1, .max] { latencies.add(microseconds: microseconds) }
        #expect(latencies.count == 5)
        #expect(latencies.maxMicroseconds == .max)
    }

    @Test("the server's Date puts this machine's clock right; a second's rounding does not")
    func serverClock() {
        // 1994-11-06T08:49:37Z, the example of RFC 9110, section 5.6.7.
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let there = Moment(millisecondsSinceEpoch: 784_111_777_000)
        let behind = there.advanced(bySeconds: -600)
        #expect(ServerClock(local: { behind }, date: date).now == there.advanced(byMilliseconds: 500))
        let near = there.advanced(byMilliseconds: 900)
        #expect(ServerClock(local: { near }, date: date).now == near)
        #expect(ServerClock(local: { near }, date: "yesterday").now == near)
        #expect(ServerClock(local: { near }, date: nil).now == near)
    }

    @Test("the bar fits a terminal, from nothing to more than all")
    func bar() {
        let half = ProgressDisplay.bar(DeliveryProgress(delivered: 120, total: 240))
        #expect(half == "[####################....................]  50 %  120 of 240 events")
        for delivered in [0, 1, 999_999, 1_000_000, 2_000_000] {
            let bar = ProgressDisplay.bar(DeliveryProgress(delivered: delivered, total: 1_000_000))
            #expect(bar.count <= 79, "\(bar)")
        }
        #expect(ProgressDisplay.line(DeliveryProgress(delivered: 0, total: 0)) == "100 %: 0 of 0 events")
    }

    @Test("the summary names what was done")
    func summary() {
        var summary = Summary()
        summary.drives = [.duplicates: 2]
        (summary.events, summary.duplicates, summary.requests) = (10, 20, 30)
        summary.latencies.add(microseconds: 1500)
        #expect(
            summary.text(seed: 7, seconds: 1.26) == """
                drives       duplicates 2
                events       10 stored, 20 duplicates recognized
                requests     30 in 1.3 s
                latency      p50 1.5 ms, p99 1.5 ms, max 1.5 ms
                seed         7
                divergences  0
                """)
    }
}
