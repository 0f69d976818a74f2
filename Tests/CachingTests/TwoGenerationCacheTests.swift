import Caching
import Testing

struct TwoGenerationCacheTests {
    @Test func valueSurvivesAWholeAgeUnused() {
        var values = TwoGenerationCache<Int, String>(generationCountMax: 100, ageMilliseconds: 1000)
        values.expire(at: 0)
        values.expire(at: 999)
        values.insert("x", for: 1)
        values.expire(at: 1998)
        #expect(values.peek(1) == "x")
        values.expire(at: 1999)
        #expect(values.peek(1) == "x")
    }

    @Test func valueUnusedForTwoAgesIsGone() {
        var values = TwoGenerationCache<Int, String>(generationCountMax: 100, ageMilliseconds: 1000)
        values.expire(at: 0)
        values.insert("x", for: 1)
        values.expire(at: 2000)
        #expect(values.peek(1) == nil)
        #expect(values.count == 0)
    }

    private func isAny(_ value: Int) -> Bool { true }
    private func isPositive(_ value: Int) -> Bool { value > 0 }

    @Test func valueThatIsNotWorthBeingKeptIsGone() {
        var values = TwoGenerationCache<Int, Int>(generationCountMax: 10, ageMilliseconds: 1000)
        values.expire(at: 0)
        for isYoung in [true, false] {
            values.insert(7, for: 1)
            if !isYoung { values.rotate() }
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
        var values = TwoGenerationCache<Int, Int>(generationCountMax: 10, ageMilliseconds: 1_000_000)
        for key in 0..<1000 {
            values.expire(at: Int64(key))
            values.withValue(0, initial: 0, isKept: isAny) { _ in }
            values.insert(key, for: key)
            #expect(values.count <= 20)
        }
        #expect(values.peek(0) != nil, "used all the time")
        #expect(values.peek(999) == 999)
        #expect(values.peek(500) == nil)
    }

    @Test func findCountsAsUse() {
        var values = TwoGenerationCache<Int, Int>(generationCountMax: 10)
        values.insert(0, for: 0)
        for key in 1..<1000 {
            values.insert(key, for: key)
            #expect(values.find(0) == 0)
            #expect(values.count <= 20)
        }
        #expect(values.find(500) == nil)
        #expect(values.find(990) == 990, "one of the last ten")
    }

    @Test func valueInUseSurvivesARotationThatItCauses() {
        var values = TwoGenerationCache<Int, Int>(generationCountMax: 2)
        for key in 1...4 { values.insert(key, for: key) }
        let seen = values.withValue(1, initial: 0, isKept: isAny) { $0 }
        #expect(seen == 1)
        #expect(values.peek(1) == 1)
        #expect(values.peek(2) == nil)
        #expect(values.count == 3)
    }

    @Test func exemptValueOutlivesItsAge() {
        var values = TwoGenerationCache<Int, Int>(generationCountMax: 10, ageMilliseconds: 1000)
        values.expire(at: 0)
        values.insert(1, for: 1)
        values.insert(0, for: 2)
        for time in stride(from: Int64(1000), through: 5000, by: 1000) { values.expire(at: time, isExempt: isPositive) }
        values.expire(at: 9000, isExempt: isPositive)
        #expect(values.peek(1) == 1)
        #expect(values.peek(2) == nil)
    }

    @Test func removedValuesAreGoneFromBothGenerations() {
        var values = TwoGenerationCache<Int, Int>(generationCountMax: 1)
        values.insert(1, for: 1)
        values.insert(2, for: 2)
        values.remove(1)
        #expect(values.find(1) == nil)
        values.removeAll()
        #expect(values.count == 0)
    }
}
