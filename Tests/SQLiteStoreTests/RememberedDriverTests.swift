// Tests of the writer's cache of recent drivers. If other code changes a driver's row, the writer must not use the old
// row.

import Engine
import GRDB
import JourneyModel
import TestSupport
import Testing

@testable import SQLiteStore

struct RememberedDriverTests {
    private let folder: ScratchFolder
    private let driver = DriverID("driver")
    private let events = SampleJourney.whole(prefix: "k", session: "s")

    init() throws {
        folder = try ScratchFolder()
    }

    private func open() throws -> SQLiteEventStore {
        try SQLiteEventStore(path: folder.file("db"), nowMilliseconds: 0)
    }

    private func state(after submission: EventSubmission, _ store: SQLiteEventStore) async throws -> JourneyState {
        guard case .stored(let stored) = try await store.appended(.sample(submission, of: driver)) else {
            throw Unexpected(description: "\(submission.eventID) was not stored")
        }
        return stored.journey.state
    }

    @Test func `two instances on one file see what the other one stored`() async throws {
        let alone = try SQLiteEventStore(path: folder.file("alone"), nowMilliseconds: 0)
        let (one, other) = (try open(), try open())
        for (index, event) in events.enumerated() {
            let state = try await state(after: event, index.isMultiple(of: 2) ? one : other)
            #expect(try await state == self.state(after: event, alone), "event \(index)")
        }
        #expect(try await one.journey(of: driver) == alone.journey(of: driver))
        for store in [alone, one, other] { await store.close() }
    }

    @Test func `a driver who was renamed by a change is not remembered under the old name`() async throws {
        let store = try open()
        for event in events.prefix(4) { _ = try await state(after: event, store) }
        try await store.change { db in try db.execute(sql: "UPDATE driver SET driver_id = 'nobody'") }
        let first = EventSubmission.sample(.chargerTargeted, key: "new", charger: "c")
        #expect(try await state(after: first, store) == .idle)
        #expect(try await store.journey(of: DriverID("nobody")).state == .sessionActive)
        await store.close()
    }

    /// U+212A, the Kelvin sign, is canonically equivalent to K. Swift compares the two as equal Strings, but they are
    /// different ids.
    @Test func `ids that only look the same are two`() async throws {
        let store = try open()
        for id in ["K", "\u{212A}"] {
            let event = EventSubmission.sample(.chargerTargeted, key: "k", charger: id)
            guard case .stored = try await store.appended(.sample(event, of: DriverID(id))) else {
                Issue.record("\(id) is taken for another")
                continue
            }
        }
        let target = try await store.journey(of: DriverID("\u{212A}")).targetChargerID
        #expect(target?.unicodeScalars.map(\.value) == [0x212A])
        #expect(try await store.timeline(of: DriverID("K")).count == 1)
        await store.close()
    }

    @Test func `what was rolled back is not remembered`() async throws {
        let store = try open()
        _ = try await state(after: events[0], store)
        try await store.execute("CREATE TRIGGER refuse BEFORE UPDATE ON driver BEGIN SELECT raise(ABORT, 'no'); END")
        await #expect(throws: StoreFailure.self) { _ = try await state(after: events[1], store) }
        try await store.execute("DROP TRIGGER refuse")
        #expect(try await store.journey(of: driver).state == .idle)
        #expect(try await state(after: events[1], store) == .nearCharger)
        #expect(try await store.eventCount() == 2)
        await store.close()
    }
}

extension SQLiteEventStore {
    fileprivate func execute(_ sql: String) async throws {
        try await change { db in try db.execute(sql: sql) }
    }
}
