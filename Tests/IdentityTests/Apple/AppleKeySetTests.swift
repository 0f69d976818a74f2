// Tests of the fetches of Apple's key set, and of sign-ins while Apple is unavailable.

import JourneyModel
import TestSupport
import Testing

@testable import Identity

@Suite struct AppleKeySetTests {
    private let clock = ManualClock()
    private let source = ScriptedKeySet(AppleKeyPairs.first)

    private func makeKeys() -> AppleKeySet {
        AppleKeySet(source: source, clock: { [clock] in clock.now })
    }

    private func refusal(_ keys: AppleKeySet, _ name: String) async -> AppleTokenRefusal? {
        do throws(AppleTokenRefusal) {
            _ = try await keys.key(named: name)
            return nil
        } catch {
            return error
        }
    }

    private func refusals(_ keys: AppleKeySet, _ names: [String]) async -> [AppleTokenRefusal?] {
        await withTaskGroup(of: AppleTokenRefusal?.self) { group in
            for name in names { group.addTask { await refusal(keys, name) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    /// Waits until `count` fetches have begun.
    private func fetches(_ count: Int) async {
        while source.fetchCount < count { await Task.yield() }
    }

    // MARK: One fetch

    @Test func manyAtOnceReadItOnce() async {
        let keys = makeKeys()
        source.hold()
        async let answers = refusals(keys, Array(repeating: "key-1", count: 100))
        await fetches(1)
        source.release()
        #expect(await answers.allSatisfy { $0 == nil })
        #expect(source.fetchCount == 1)
    }

    @Test func itIsReadAgainWhenItIsStaleAndNobodyWaits() async {
        let keys = makeKeys()
        #expect(await refusal(keys, "key-1") == nil)
        clock.advance(bySeconds: 3599)
        #expect(await refusal(keys, "key-1") == nil)
        #expect(source.fetchCount == 1)
        clock.advance(bySeconds: 1)
        source.hold()
        for _ in 0..<10 { #expect(await refusal(keys, "key-1") == nil) }
        await fetches(2)
        source.release()
        #expect(source.fetchCount == 2)
    }

    @Test(arguments: [(nil, 3600), (0, 300), (299, 300), (1000, 1000), (86_401, 86_400), (Int.max, 86_400)])
    func ageIsBelievedWithinBounds(maxAge: Int?, seconds: Int) async {
        source.publish(AppleKeyPairs.first, maxAgeSeconds: maxAge)
        let keys = makeKeys()
        _ = await refusal(keys, "key-1")
        clock.advance(bySeconds: seconds - 1)
        _ = await refusal(keys, "key-1")
        #expect(source.fetchCount == 1)
        clock.advance(bySeconds: 1)
        _ = await refusal(keys, "key-1")
        await fetches(2)
    }

    // MARK: Unknown key ids

    @Test func aRotatedKeyIsFoundAtOnce() async {
        let keys = makeKeys()
        _ = await refusal(keys, "key-1")
        source.publish(AppleKeyPairs.first, AppleKeyPairs.second)
        #expect(await refusal(keys, "key-2") == nil)
        #expect(source.fetchCount == 2)
        source.publish(AppleKeyPairs.second)
        clock.advance(bySeconds: 3600)
        _ = await refusal(keys, "key-2")
        await fetches(3)
        // The third fetch may still be running in the background. A sign-in with an unknown key id waits for that
        // fetch.
        #expect(await refusal(keys, "unknown") == .refused(.unknownKey))
        #expect(await refusal(keys, "key-1") == .refused(.unknownKey))
    }

    @Test(arguments: 1...20)
    func unknownNamesCostOneFetchAMinute(seed: UInt64) async {
        var random = SeededRandom(seed: seed)
        let keys = makeKeys()
        _ = await refusal(keys, "key-1")
        for minute in 1...5 {
            let names = (0..<Int.random(in: 2...60, using: &random)).map { _ in
                "unknown-\(Int.random(in: 0...9, using: &random))"
            }
            source.hold()
            async let answers = refusals(keys, names)
            await fetches(1 + minute)
            source.release()
            #expect(await answers.allSatisfy { $0 == .refused(.unknownKey) })
            clock.advance(bySeconds: Int.random(in: 0...59, using: &random))
            #expect(await refusals(keys, names).allSatisfy { $0 == .refused(.unknownKey) })
            #expect(await refusal(keys, "key-1") == nil)
            #expect(source.fetchCount == 1 + minute, "seed \(seed)")
            clock.advance(bySeconds: 60)
        }
    }

    @Test func anUnknownNameAtTheVeryStartIsASearchToo() async {
        let keys = makeKeys()
        for _ in 0..<5 { #expect(await refusal(keys, "unknown") == .refused(.unknownKey)) }
        #expect(source.fetchCount == 1)
        clock.advance(bySeconds: 60)
        #expect(await refusal(keys, "unknown") == .refused(.unknownKey))
        #expect(source.fetchCount == 2)
    }

    @Test func aClockSetBackStretchesNoPause() async {
        let keys = makeKeys()
        _ = await refusal(keys, "unknown")
        clock.advance(bySeconds: -3600)
        source.publish(AppleKeyPairs.second)
        #expect(await refusal(keys, "key-2") == nil)
    }

    @Test func afterTheClockWasSetBackTheSetIsReadAgain() async {
        let keys = makeKeys()
        _ = await refusal(keys, "key-1")
        clock.advance(bySeconds: -2 * 86_400)
        #expect(await refusal(keys, "key-1") == nil)
        await fetches(2)
    }

    // MARK: Apple unavailable

    @Test func withoutAnySetNobodyCanTell() async {
        source.goAway()
        let keys = makeKeys()
        #expect(await refusal(keys, "key-1") == .keysUnavailable(retryAfterSeconds: 1))
        #expect(await refusal(keys, "key-1") == .keysUnavailable(retryAfterSeconds: 1))
        #expect(source.fetchCount == 1)
        var told: [Int64] = []
        for _ in 0..<6 {
            clock.advance(bySeconds: Int(told.last ?? 1))
            if case .keysUnavailable(let seconds) = await refusal(keys, "key-1") { told.append(seconds) }
        }
        #expect(told == [2, 4, 8, 16, 30, 30])
        source.publish(AppleKeyPairs.first)
        clock.advance(bySeconds: 30)
        #expect(await refusal(keys, "key-1") == nil)
    }

    @Test func whoeverWaitsTheToldTimeIsAskedFor() async {
        source.goAway()
        let keys = makeKeys()
        _ = await refusal(keys, "key-1")
        clock.advance(byMilliseconds: 999)
        #expect(await refusal(keys, "key-1") == .keysUnavailable(retryAfterSeconds: 1))
        clock.advance(byMilliseconds: 1)
        source.publish(AppleKeyPairs.first)
        #expect(await refusal(keys, "key-1") == nil)
    }

    @Test(arguments: ["<html>hotel</html>", #"{"keys":"none"}"#, #"{"keys":[]}"#, ""])
    func nonsenseReplacesNothing(text: String) async {
        let keys = makeKeys()
        _ = await refusal(keys, "key-1")
        source.publish(text)
        #expect(await refusal(keys, "unknown") == .keysUnavailable(retryAfterSeconds: 60))
        #expect(await refusal(keys, "key-1") == nil)
        #expect(await refusal(makeKeys(), "key-1") == .keysUnavailable(retryAfterSeconds: 1))
    }

    @Test func knownKeysGoOnWhileAppleIsAwayAndUnknownNamesAreNotCalledWrong() async {
        let keys = makeKeys()
        _ = await refusal(keys, "key-1")
        source.goAway()
        #expect(await refusal(keys, "key-2") == .keysUnavailable(retryAfterSeconds: 60))
        clock.advance(bySeconds: 20)
        #expect(await refusal(keys, "key-2") == .keysUnavailable(retryAfterSeconds: 40))
        #expect(source.fetchCount == 2)
        #expect(await refusal(keys, "key-1") == nil)
    }

    @Test func aStaleSetIsTriedOnceAMinuteAndBelievedForAWeek() async {
        let keys = makeKeys()
        _ = await refusal(keys, "key-1")
        source.goAway()
        clock.advance(bySeconds: 3600)
        #expect(await refusal(keys, "key-1") == nil)
        await fetches(2)
        for _ in 0..<59 {
            clock.advance(bySeconds: 1)
            #expect(await refusal(keys, "key-1") == nil)
        }
        #expect(source.fetchCount == 2)
        clock.advance(bySeconds: 7 * 86_400 - 60)
        #expect(await refusal(keys, "key-1") == nil)
        await fetches(3)
        clock.advance(bySeconds: 1)
        #expect(await refusal(keys, "key-1") != nil)
    }

    @Test func aSlowAppleMakesNobodyWaitWhoseKeyIsKnown() async {
        let keys = makeKeys()
        _ = await refusal(keys, "key-1")
        source.hold()
        async let waiting = refusal(keys, "unknown")
        await fetches(2)
        #expect(await refusal(keys, "key-1") == nil)
        source.release()
        #expect(await waiting == .refused(.unknownKey))
    }
}
