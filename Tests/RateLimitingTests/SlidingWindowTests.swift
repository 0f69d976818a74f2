// Tests the sliding window log of the contract, section 4: the charges in a window, and when they expire. Time is an
// argument; nothing waits.

import TestSupport
import Testing

@testable import RateLimiting

struct SlidingWindowLogTests {
    @Test func chargeLeavesWithTheMomentItWasMade() {
        var log = SlidingWindowLog()
        log.insert("a", at: 1000)
        log.removeCharges(through: 999)
        #expect(log.contains("a"))
        log.removeCharges(through: 1000)
        #expect(!log.contains("a"))
        #expect(log.count == 0)
        #expect(log.oldestTime == nil)
    }

    @Test func keyIsChargedOnce() {
        var log = SlidingWindowLog()
        #expect(log.insert("a", at: 1) == true)
        #expect(log.insert("a", at: 5) == false)
        #expect(log.count == 1)
        #expect(log.oldestTime == 1)
    }

    @Test func removedChargeLeavesItsNeighboursOfTheSameMillisecond() {
        var log = SlidingWindowLog()
        for key in ["a", "b", "c"] { log.insert(key, at: 7) }
        #expect(log.remove("b") == true)
        #expect(log.remove("b") == false)
        #expect(log.contains("a") && log.contains("c"))
        #expect(log.count == 2)
        #expect(log.count(after: 6) == 2)
        #expect(log.count(after: 7) == 0)
    }

    @Test func chargesThatComeLateAreSortedIn() {
        var log = SlidingWindowLog()
        log.insert("b", at: 20)
        log.insert("a", at: 10)
        #expect(log.oldestTime == 10)
        #expect(log.count(after: 10) == 1)
        log.removeOldest()
        #expect(log.contains("b") && !log.contains("a"))
    }

    /// Of thousands of charges, at most ten are in the window at any time. Expired charges must not affect the result.
    @Test func longHistoryDoesNotDisturbTheCount() {
        var log = SlidingWindowLog()
        for time in Int64(0)..<5000 {
            log.insert("key \(time)", at: time)
            log.removeCharges(through: time - 10)
            #expect(log.count == min(Int(time) + 1, 10))
            #expect(log.oldestTime == max(0, time - 9))
        }
    }

    /// Compares the log with a plain list. The number of charges varies around the number from which the log uses a
    /// hash table.
    @Test(arguments: [UInt64](0..<20)) func `a log of any length says what a plain list says`(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var log = SlidingWindowLog()
        var list: [(time: Int64, key: String)] = []
        for step in 0..<2000 {
            let key = "key \(Int.random(in: 0..<300, using: &random))"
            let place = list.firstIndex { $0.key == key }
            #expect(log.contains(key) == (place != nil))
            switch Int.random(in: 0..<8, using: &random) {
            case 0...4:
                let time = Int64(step) - Int64.random(in: 0...5, using: &random)
                #expect(log.insert(key, at: time) == (place == nil))
                if place == nil {
                    list.insert((time, key), at: list.firstIndex { $0.time > time } ?? list.count)
                }
            case 5...6:
                #expect(log.remove(key) == (place != nil))
                if let place { list.remove(at: place) }
            default:
                let time = Int64(step) - 400
                log.removeCharges(through: time)
                list.removeAll { $0.time <= time }
            }
            #expect(log.count == list.count)
            #expect(log.oldestTime == list.first?.time)
        }
    }
}

extension SlidingWindowLog {
    fileprivate func contains(_ key: String) -> Bool { contains(TextHash(key)) }

    @discardableResult
    fileprivate mutating func insert(_ key: String, at time: Int64) -> Bool { insert(TextHash(key), at: time) }

    @discardableResult
    fileprivate mutating func remove(_ key: String) -> Bool { remove(TextHash(key)) }
}
