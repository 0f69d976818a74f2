// Tests that a stream reads every change after the last one it has seen. If those changes are no longer stored, the
// stream reads the current state. This also holds after restarts, with late events and with expiries.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct ChangeTests {
    private let folder: ScratchFolder
    private let driver = DriverID("driver")
    private let events = SampleJourney.whole(prefix: "k", session: "s")

    init() throws {
        folder = try ScratchFolder()
    }

    private func open() throws -> SQLiteEventStore {
        try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
    }

    private func append(_ submission: EventSubmission, _ store: SQLiteEventStore) async throws {
        _ = try await store.appended(.sample(submission, of: driver))
    }

    private func missed(_ store: SQLiteEventStore, after id: Int64?) async throws -> [JourneyChange] {
        guard case .all(let changes) = try await store.changes(of: driver, after: id) else {
            throw Unexpected(description: "only the newest can be told after \(id ?? -1)")
        }
        return changes
    }

    private func newest(_ store: SQLiteEventStore, after id: Int64?) async throws -> JourneyChange {
        guard case .newest(let change) = try await store.changes(of: driver, after: id) else {
            throw Unexpected(description: "changes after \(id ?? -1) are told one by one")
        }
        return change
    }

    @Test func `each change of state is one change, with its cause; events that move nothing are none`() async throws {
        let store = try open()
        for event in events { try await append(event, store) }
        let changes = try await missed(store, after: 0)
        #expect(
            changes.map(\.journey.state) == [
                .nearCharger, .anchored, .sessionActive, .inTransit, .atMerchant, .sessionEnded,
            ])
        #expect(changes.map(\.cause?.eventID) == ["k1", "k2", "k3", "k4", "k5", "k6"])
        #expect(changes.map(\.journey.sessionID) == [nil, nil, "s", "s", "s", "s"])
        let grace = Moment.sample.advanced(bySeconds: 120 + 900)
        #expect(changes.map(\.journey.graceDeadline) == [nil, nil, nil, grace, nil, nil])
        #expect(zip(changes, changes.dropFirst()).allSatisfy { $0.id < $1.id })
        #expect(try await missed(store, after: changes[3].id) == Array(changes[4...]))
        #expect(try await missed(store, after: changes[5].id) == [])
        await store.close()
    }

    @Test func `a reader who names no change, or one that never was, is told the newest`() async throws {
        let store = try open()
        #expect(try await newest(store, after: nil) == JourneyChange(id: 0, journey: Journey(), cause: nil))
        #expect(try await missed(store, after: 0) == [])
        for event in events.prefix(3) { try await append(event, store) }
        let last = try #require(try await missed(store, after: 0).last)
        for id in [nil, -1, last.id + 1, .max, .min] as [Int64?] {
            #expect(try await newest(store, after: id) == last, "\(id ?? 0)")
        }
        await store.close()
    }

    @Test func `changes outlive the process`() async throws {
        let before = try open()
        for event in events.prefix(4) { try await append(event, before) }
        let seen = try await missed(before, after: 0)
        await before.close()
        let after = try open()
        try await append(events[4], after)
        #expect(try await missed(after, after: 0) == seen + (try await missed(after, after: seen.last?.id)))
        #expect(try await missed(after, after: seen.last?.id).map(\.journey.state) == [.inTransit])
        await after.close()
    }

    @Test func `who missed more than are remembered is told the newest`() async throws {
        let store = try open()
        for round in 0..<RecentChanges.countMax {
            let at = Moment.sample.advanced(bySeconds: 20 * round)
            try await append(.sample(.enteredChargerIntentZone, key: "in\(round)", at: at), store)
            try await append(
                .sample(.exitedChargerIntentZone, key: "out\(round)", at: at.advanced(bySeconds: 10)), store)
        }
        let newest = try await newest(store, after: 1)
        #expect(newest.journey.state == .idle)
        let remembered = try await missed(store, after: newest.id - Int64(RecentChanges.countMax) + 1)
        #expect(remembered.count == RecentChanges.countMax - 1)
        #expect(remembered.last == newest)
        await store.close()
    }

    @Test func `a late event that goes back is a change, and what was told before stays told`() async throws {
        let store = try open()
        for index in [0, 1, 2, 3, 4] { try await append(events[index], store) }
        let before = try await missed(store, after: 0)
        let stored = try await store.storeExpiries(
            ExpiryRequest(
                now: .sample.advanced(bySeconds: 3000), settings: AppendRequest.sample(events[0], of: driver).settings,
                driversMax: 10))
        #expect(stored.drivers == [driver])
        try await append(events[5], store)
        let after = try await missed(store, after: 0)
        #expect(Array(after.prefix(before.count)) == before)
        #expect(after.dropFirst(before.count).map(\.journey.state) == [.sessionEnded, .atMerchant])
        #expect(after.dropFirst(before.count).map(\.cause?.source) == ["server", "ios_native"])
        await store.close()
    }

    @Test func `news names the drivers of events after an event, and anybody when there are too many`() async throws {
        let store = try open()
        #expect(
            try await store.committedChanges(after: nil, among: [driver]) == CommittedChanges(newest: 0, drivers: .any))
        try await append(events[0], store)
        _ = try await store.appended(.sample(events[0], of: DriverID("other")))
        try await append(events[1], store)
        #expect(
            try await store.committedChanges(after: 2, among: [driver])
                == CommittedChanges(newest: 3, drivers: .these([driver])))
        #expect(
            try await store.committedChanges(after: 3, among: [driver])
                == CommittedChanges(newest: 3, drivers: .these([])))
        #expect(
            try await store.committedChanges(after: 4, among: [driver]) == CommittedChanges(newest: 3, drivers: .any),
            "another database's number")
        // `committedChanges` names the drivers of at most ten thousand events. For more events, it returns `.any`.
        try await store.change { db in try db.execute(sql: "UPDATE event_row SET id = 10002 WHERE id = 3") }
        #expect(
            try await store.committedChanges(after: 2, among: [driver])
                == CommittedChanges(newest: 10_002, drivers: .these([driver])))
        #expect(
            try await store.committedChanges(after: 1, among: [driver])
                == CommittedChanges(newest: 10_002, drivers: .any), "one event more")
        await store.close()
    }
}

struct RecentChangesTests {
    private func change(_ random: inout SeededRandom) -> RecentChanges.Change {
        let moment = { (random: inout SeededRandom) -> Moment? in
            guard Bool.random(using: &random) else { return nil }
            return Moment(millisecondsSinceEpoch: .random(in: .min ... .max, using: &random))
        }
        return RecentChanges.Change(
            event: .random(in: 1 ... .max, using: &random),
            state: JourneyState.allCases.randomElement(using: &random) ?? .idle,
            session: Bool.random(using: &random) ? .random(in: 1 ... .max, using: &random) : nil,
            graceDeadline: moment(&random), hardDeadline: moment(&random))
    }

    @Test(arguments: [UInt64](0..<200)) func `what is written is read`(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var bytes: [UInt8] = []
        let all = (0..<Int.random(in: 0...40, using: &random)).map { _ in change(&random) }
        for change in all { RecentChanges.append(change, to: &bytes) }
        #expect(RecentChanges(bytes: bytes).changes == all.suffix(RecentChanges.countMax))
    }

    @Test func `damaged bytes are no changes, and no crash`() {
        var random = SeededRandom(seed: 5)
        var bytes: [UInt8] = []
        for _ in 0..<8 { RecentChanges.append(change(&random), to: &bytes) }
        let changes = RecentChanges(bytes: bytes).changes
        for length in 1..<bytes.count {
            let cut = RecentChanges(bytes: Array(bytes.prefix(length))).changes
            #expect(cut.isEmpty || cut == Array(changes.prefix(cut.count)), "\(length) bytes")
        }
        var damaged = Array(bytes.dropLast())
        let newest = change(&random)
        RecentChanges.append(newest, to: &damaged)
        #expect(RecentChanges(bytes: damaged).changes == [newest], "what cannot be read is let go")
        for _ in 0..<20_000 {
            let noise = (0..<Int.random(in: 0...40, using: &random)).map { _ in
                UInt8.random(in: .min ... .max, using: &random)
            }
            _ = RecentChanges(bytes: noise)
        }
        #expect(RecentChanges(bytes: [0xFF]).changes.isEmpty)
        #expect(RecentChanges(bytes: [0] + [UInt8](repeating: 0x80, count: 20)).changes.isEmpty)
    }
}
