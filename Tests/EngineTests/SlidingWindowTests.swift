// The sliding window log of contract, section 4, by itself: what is in a window, for how long, and how windows
// are forgotten. Time is an argument here; nothing waits.

import Testing

@testable import Engine

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

    @Test func countIsBoundedAndTheLongestUnusedGoFirst() {
        var values = SlidingWindowGenerations<Int, Int>(countMax: 10, ageMilliseconds: 1_000_000)
        for key in 0..<1000 {
            values.age(at: Int64(key))
            if let first = values.take(0) { values.put(first, for: 0) }
            values.put(key, for: key)
            #expect(values.count <= 22)
        }
        #expect(values.peek(0) != nil, "used all the time")
        #expect(values.peek(999) == 999)
        #expect(values.peek(500) == nil)
    }
}
