// Tests of the dwell. With the default settings, the phone must stay within 30 m of the charger for 120 s and move
// slower than 1.5 m/s. Only fixes with an accuracy of 50 m or better count.

import JourneyClient
import JourneyModel
import Testing

struct DwellDetectorTests {
    /// Returns the time in seconds of the fix that completes the dwell, or nil if no fix completes it.
    private func completion(
        _ fixes: [LocationFix], _ settings: Settings = Settings()
    ) -> Int64? {
        var detector = DwellDetector()
        return fixes.first { detector.take($0, at: Town.charger.coordinate, by: settings) }
            .map { $0.at.milliseconds(since: .at(0)) / 1000 }
    }

    private func steps(_ seconds: [Double], east: Double = 5, speed: Double? = 0) -> [LocationFix] {
        seconds.map { Town.fix(east: east, speed: speed, at: $0) }
    }

    @Test("completes with the first fix that lies the whole dwell after the stay's first, not before")
    func completes() {
        #expect(completion(steps([0, 30, 60, 90, 119.999])) == nil)
        #expect(completion(steps([0, 30, 60, 90, 120])) == 120)
        #expect(completion(steps([0, 50, 100, 150])) == 150)
    }

    @Test("the edge of the circle is inside")
    func edge() {
        #expect(completion(steps([0, 120], east: 29.9)) == 120)
        #expect(completion(steps([0, 120], east: 30.1)) == nil)
    }

    @Test("an inaccurate fix counts for nothing: it neither begins, nor completes, nor ends")
    func inaccurate() {
        let far = Town.fix(east: 900, accuracy: 50.1, at: 60)
        let invalid = Town.fix(east: 900, accuracy: -1, at: 61)
        let unknown = Town.fix(east: 900, accuracy: .nan, at: 62)
        #expect(completion(steps([0]) + [far, invalid, unknown] + steps([120])) == 120)
        #expect(completion([Town.fix(east: 5, accuracy: 51, at: 0)] + steps([60, 120])) == nil)
        #expect(completion(steps([0]) + [Town.fix(east: 5, accuracy: 51, at: 120)]) == nil)
    }

    @Test("an accuracy of exactly the threshold is good enough")
    func accuracyThreshold() {
        #expect(completion([0, 120].map { Town.fix(east: 5, accuracy: 50, at: $0) }) == 120)
    }

    @Test("a fix whose whole uncertainty lies outside ends the stay; one in the band around the circle does not")
    func leaving() {
        #expect(completion(steps([0]) + [Town.fix(east: 36, accuracy: 5, at: 60)] + steps([120, 170])) == nil)
        #expect(completion(steps([0]) + [Town.fix(east: 34, accuracy: 5, at: 60)] + steps([120])) == 120)
    }

    @Test("moving at the threshold or faster ends the stay, below it does not, and unknown speed counts as slow")
    func speed() {
        #expect(completion(steps([0]) + steps([60], speed: 1.5) + steps([120, 179])) == nil)
        #expect(completion(steps([0]) + steps([60], speed: 1.49) + steps([120])) == 120)
        #expect(completion(steps([0, 120], speed: nil)) == 120)
        #expect(completion(steps([0, 120], speed: -1)) == 120)
    }

    @Test("a silence of up to twice the dwell is bridged; after a longer one the stay begins anew")
    func silence() {
        #expect(completion(steps([0, 240])) == 240)
        #expect(completion(steps([0, 240.001])) == nil)
        #expect(completion(steps([0, 300, 420])) == 420)
    }

    @Test("a fix older than the last one is ignored")
    func outOfOrder() {
        #expect(completion(steps([0, 100, 40, 119])) == nil)
        #expect(completion(steps([0, 100, 40, 120])) == 120)
        #expect(completion(steps([0, 100, 40, 290])) == 290, "the silence began at 100 s, not at 40 s")
    }

    @Test("a completed dwell begins anew")
    func again() {
        var detector = DwellDetector()
        let completed = steps([0, 120, 130, 240, 250]).map {
            detector.take($0, at: Town.charger.coordinate, by: Settings())
        }
        #expect(completed == [false, true, false, false, true])
    }

    @Test("tells when a fix would complete it")
    func completesAt() {
        var detector = DwellDetector()
        #expect(detector.completesAt(by: Settings()) == nil)
        _ = detector.take(Town.fix(east: 5, at: 7), at: Town.charger.coordinate, by: Settings())
        #expect(detector.completesAt(by: Settings()) == .at(127))
        detector.reset()
        #expect(detector.completesAt(by: Settings()) == nil)
    }
}
