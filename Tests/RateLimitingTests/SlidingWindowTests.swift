// The sliding window log of contract, section 4: what a window contains, for how long, and when windows are dropped.
// Time is an argument; nothing waits.

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

    /// Thousands of charges with a handful alive at a time: the array must follow the living, not the dead.
    @Test func longHistoryDoesNotDisturbTheCount() {
        var log = SlidingWindowLog()
        for time in Int64(0)..<5000 {
            log.insert("key \(time)", at: time)
            log.removeCharges(through: time - 10)
            #expect(log.count == min(Int(time) + 1, 10))
            #expect(log.oldestTime == max(0, time - 9))
        }
    }

    /// Around the number of charges from which on they have a table, against a list that is looked through.
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

struct SlidingWindowGenerationsTests {
    @Test func valueSurvivesAWholeAgeUnused() {
        var values = SlidingWindowGenerations<Int, String>(countMax: 100, ageMilliseconds: 1000)
        values.age(at: 0)
        values.age(at: 999)
        values.put("x", for: 1)
        values.age(at: 1998)
        #expect(values.peek(1) == "x")
        values.age(at: 1999)
        #expect(values.peek(1) == "x")
    }

    @Test func valueUnusedForTwoAgesIsGone() {
        var values = SlidingWindowGenerations<Int, String>(countMax: 100, ageMilliseconds: 1000)
        values.age(at: 0)
        values.put("x", for: 1)
        values.age(at: 2000)
        #expect(values.peek(1) == nil)
        #expect(values.count == 0)
    }

    private func isAny(_ value: Int) -> Bool { true }
    private func isPositive(_ value: Int) -> Bool { value > 0 }

    @Test func valueThatIsNotWorthBeingKeptIsGone() {
        var values = SlidingWindowGenerations<Int, Int>(countMax: 10, ageMilliseconds: 1000)
        values.age(at: 0)
        for isYoung in [true, false] {
            values.put(7, for: 1)
            if !isYoung { values.turn(at: 0) }
            let seen = values.withValue(1, initial: 0, isKept: isPositive) { value in
                defer { value = 0 }
                return value
            }
            #expect(seen == 7)
            #expect(values.peek(1) == nil)
            #expect(values.count == 0)
        }
    }

    @Test func countIsBoundedAndTheLongestUnusedGoFirst() {
        var values = SlidingWindowGenerations<Int, Int>(countMax: 10, ageMilliseconds: 1_000_000)
        for key in 0..<1000 {
            values.age(at: Int64(key))
            values.withValue(0, initial: 0, isKept: isAny) { _ in }
            values.put(key, for: key)
            #expect(values.count <= 22)
        }
        #expect(values.peek(0) != nil, "used all the time")
        #expect(values.peek(999) == 999)
        #expect(values.peek(500) == nil)
    }
}
