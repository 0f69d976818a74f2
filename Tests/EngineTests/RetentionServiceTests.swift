// Tests of a retention round, which deletes in small steps. SQLiteStoreTests/RetentionTests tests what a step deletes.

import JourneyModel
import Logging
import Synchronization
import TestSupport
import Testing

@testable import Engine

private final class ScriptedRetention: RetentionStore {
    struct State {
        var events: [AgedEvent] = []
        var sessions: [Int64] = []
        var asked: [AgedEventsRequest] = []
        var steps: [[Int64]] = []
        var sessionSteps: [Int] = []
        var failsAtStep: Int?
        var unused: [Int64] = []
        var askedForRegistrations: [Int64] = []
        /// If not nil, the store reports that the part of the unused registrations after this row number ends with a
        /// time in the future.
        var partInFuture: Int64?
        var auditLines: [Int64] = []
        var auditSteps: [Int] = []
    }

    let state: Mutex<State>

    init(_ state: consuming State) { self.state = Mutex(state) }

    let writesWaiting = 0

    func agedEvents(_ request: AgedEventsRequest) async throws(StoreFailure) -> AgedEvents {
        state.withLock { state in
            state.asked.append(request)
            let events = state.events.filter { $0.id > request.after }.prefix(request.limit)
            return AgedEvents(events: Array(events), next: events.count == request.limit ? events.last?.id : nil)
        }
    }

    func delete(_ events: ArraySlice<AgedEvent>) async throws(StoreFailure) -> Int {
        let isFailing = state.withLock { state -> Bool in
            state.steps.append(events.map(\.id))
            if state.failsAtStep == state.steps.count { return true }
            let gone = Set(events.map(\.id))
            state.events.removeAll { gone.contains($0.id) }
            return false
        }
        if isFailing { throw .unavailable("the disk is full") }
        return events.count
    }

    func agedSessions(openedBefore: Moment, after number: Int64, limit: Int) async throws(StoreFailure) -> [Int64] {
        state.withLock { state in Array(state.sessions.filter { $0 > number }.prefix(limit)) }
    }

    func unusedRegistrations(
        before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers {
        state.withLock { state in
            state.askedForRegistrations.append(number)
            var part = Self.part(state.unused, after: number, limit: limit)
            if number == state.partInFuture { part.endsInFuture = true }
            return part
        }
    }

    func agedAuditLines(
        before: Moment, at now: Moment, after number: Int64, limit: Int
    ) async throws(StoreFailure) -> AgedNumbers {
        state.withLock { Self.part($0.auditLines, after: number, limit: limit) }
    }

    private static func part(_ numbers: [Int64], after number: Int64, limit: Int) -> AgedNumbers {
        let part = Array(numbers.filter { $0 > number }.prefix(limit))
        return AgedNumbers(numbers: part, next: part.count == limit ? part.last : nil)
    }

    func delete(auditLines: ArraySlice<Int64>) async throws(StoreFailure) -> Int {
        state.withLock { $0.auditSteps.append(auditLines.count) }
        return auditLines.count
    }

    func delete(sessions: ArraySlice<Int64>, openedBefore: Moment) async throws(StoreFailure) -> Int {
        state.withLock { $0.sessionSteps.append(sessions.count) }
        return sessions.count
    }
}

struct RetentionServiceTests {
    private let clock = ManualClock()

    private func keeping(
        _ store: ScriptedRetention, days: Int? = 30, auditDays: Int? = nil, forwarded: Int64 = .max
    ) -> RetentionService {
        RetentionService(
            store: store, days: days, auditDays: auditDays, clock: { [clock] in clock.now },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
            forwarded: { () throws(StoreFailure) in forwarded })
    }

    /// Returns events that arrived from three drivers in turn.
    private func events(_ count: Int) -> [AgedEvent] {
        (1...Int64(count)).map { AgedEvent(id: $0, driver: $0 % 3, correctedAt: .sample.advanced(bySeconds: -Int($0))) }
    }

    @Test func `no step is larger than its bound, and each driver's events go together, in their order`() async throws {
        let store = ScriptedRetention(.init(events: events(200), sessions: Array(1...70)))
        #expect(try await keeping(store).round() == RetentionService.Deleted(events: 200, sessions: 70))
        let state = store.state.withLock { $0 }
        #expect(state.steps.allSatisfy { $0.count <= RetentionService.stepMax })
        #expect(state.sessionSteps == [RetentionService.stepMax, 70 - RetentionService.stepMax])
        let all = state.steps.flatMap { $0 }
        #expect(all.map { $0 % 3 } == all.map { $0 % 3 }.sorted())
        #expect(Array(all.prefix(3)) == [198, 195, 192])
    }

    @Test func `the limits are those of the days, and what is not forwarded has a week more`() async throws {
        let store = ScriptedRetention(.init())
        _ = try await keeping(store, forwarded: 17).round()
        let days = { (count: Int) in clock.now.advanced(bySeconds: -count * 86_400) }
        #expect(
            store.state.withLock(\.asked) == [
                AgedEventsRequest(
                    now: clock.now, receivedBefore: days(30), forwarded: 17, unforwardedBefore: days(37), after: 0,
                    limit: RetentionService.partMax)
            ])
    }

    @Test func `audit lines and unused registrations go in steps, without a limit on events`() async throws {
        let store = ScriptedRetention(.init(events: events(10), unused: Array(1...5000), auditLines: Array(1...70)))
        let keeping = keeping(store, days: nil, auditDays: 365)
        #expect(try await keeping.round() == RetentionService.Deleted(sessions: 5000, auditLines: 70))
        let state = store.state.withLock { $0 }
        #expect(state.steps.isEmpty)
        #expect(state.auditSteps == [RetentionService.stepMax, 70 - RetentionService.stepMax])
        #expect(state.askedForRegistrations == [0, Int64(RetentionService.partMax)])
        // The first round has read the first part completely, so the next round begins after this part.
        _ = try await keeping.round()
        #expect(store.state.withLock(\.askedForRegistrations).last == Int64(RetentionService.partMax))
    }

    @Test func `registrations after a part that ends in the future are deleted, and read again by every round`()
        async throws
    {
        let partMax = Int64(RetentionService.partMax)
        let store = ScriptedRetention(.init(unused: Array(1...partMax + 1), partInFuture: 0))
        let keeping = keeping(store, days: nil)
        #expect(try await keeping.round() == RetentionService.Deleted(sessions: RetentionService.partMax + 1))
        _ = try await keeping.round()
        #expect(store.state.withLock(\.askedForRegistrations) == [0, partMax, 0, partMax])
    }

    @Test func `a failure ends the round, and what is left is the next one's`() async throws {
        let store = ScriptedRetention(.init(events: events(200), failsAtStep: 2))
        await #expect(throws: StoreFailure.unavailable("the disk is full")) { try await keeping(store).round() }
        #expect(store.state.withLock(\.steps.count) == 2)
        #expect(
            try await keeping(store).round() == RetentionService.Deleted(events: 200 - RetentionService.stepMax))
        let left = store.state.withLock { $0.events.count }
        #expect(left == 0)
    }

    @Test func `cancelled, it ends after the step under way`() async throws {
        let store = ScriptedRetention(.init(events: events(4000)))
        let task = Task { await keeping(store).run() }
        while store.state.withLock(\.steps.isEmpty) { await Task.yield() }
        task.cancel()
        await task.value
        #expect(store.state.withLock(\.steps.count) < 4000 / RetentionService.stepMax)
    }
}
